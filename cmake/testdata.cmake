# SPDX-License-Identifier: Apache-2.0
# Unpacks tests/data/qwen3-tokenizer/tokenizer.json.xz into the build folder, once.
set(LOCKSTEP_TESTDATA_DIR ${CMAKE_BINARY_DIR}/testdata)
set(tokenizer_dir ${LOCKSTEP_TESTDATA_DIR}/qwen3-tokenizer)
if(NOT EXISTS ${tokenizer_dir}/tokenizer.json)
  file(MAKE_DIRECTORY ${tokenizer_dir})
  file(COPY ${CMAKE_SOURCE_DIR}/tests/data/qwen3-tokenizer/tokenizer_config.json DESTINATION ${tokenizer_dir})
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  execute_process(
    COMMAND ${Python3_EXECUTABLE} -c "import lzma,sys; open(sys.argv[2],'wb').write(lzma.open(sys.argv[1]).read())"
            ${CMAKE_SOURCE_DIR}/tests/data/qwen3-tokenizer/tokenizer.json.xz ${tokenizer_dir}/tokenizer.json
    COMMAND_ERROR_IS_FATAL ANY)
endif()
set(LOCKSTEP_SMOLLM2_GGUF ${CMAKE_SOURCE_DIR}/models/SmolLM2-135M-Instruct.Q4_1.gguf CACHE FILEPATH
    "The default model; ./dev setup fetches it")
