#!/usr/bin/env python3
"""Compiles the C of README.md, as C and as C++, so that what it shows is what the headers offer.

usage: readme_test.py README.md INCLUDE_FOLDER CC...
"""
import re
import subprocess
import sys
from pathlib import Path

# What the README takes for granted.
PREAMBLE = '''
#include <stdio.h>
#include <kquant/kquant.h>
#include <kquant/vulkan.h>
#include <kquant/opencl.h>
extern uint32_t rows;
extern const void *q4_k;
extern const float *activations;
extern float *out;
extern PFN_vkGetInstanceProcAddr get_instance_proc_addr;
extern VkInstance instance;
extern VkPhysicalDevice gpu;
extern VkDevice vk;
extern VkBuffer weight_buffer, value_buffer, record_buffer, result_buffer, scratch_buffer, status_buffer;
extern uint64_t weight_bytes, value_bytes, record_bytes, result_bytes, scratch_bytes;
extern const VkPipelineStageFlags compute;
extern const VkMemoryBarrier shader_write_to_read;
extern kq_repeat each_row;
extern VkDescriptorSet quantize_set, dot_set;
extern VkCommandBuffer command_buffer;
extern kq_lookup lookup;
extern cl_context context;
extern cl_device_id cl_device;
extern cl_mem cl_values, cl_records, cl_status;
extern cl_command_queue queue;
extern kq_device *device;
extern const kq_vulkan *pack;
extern VkBuffer test_buffer;
extern VkDescriptorSet test_set;
extern void *mapped;
void submit_and_wait(void);
'''


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    blocks = re.findall(r'^```c\n(.*?)^```', Path(sys.argv[1]).read_text(), re.M | re.S)
    blocks = [block for block in blocks if 'kquant/device/' not in block]  # device_code_test has those
    if len(blocks) < 4:
        print(f'{len(blocks)} blocks of C in the README; there is one a level and API')
        return 1
    code = PREAMBLE
    for i, block in enumerate(blocks):
        includes = re.findall(r'^#include.*\n', block, re.M)
        body = re.sub(r'^#include.*\n', '', block, flags=re.M)
        code += ''.join(includes)
        # A function stands as it is.
        code += body if body.startswith('static ') else \
            f'void block_{i}(void);\nvoid block_{i}(void)\n{{\n{body}}}\n'
    common = ['-Wall', '-Wextra', '-Werror', '-fsyntax-only', '-I', sys.argv[2]]
    # C++17 has no designated initialisers; both compilers take them nevertheless.
    languages = [['-x', 'c', '-std=c11', '-pedantic'],
                 ['-x', 'c++', '-std=c++20', '-pedantic', '-Wno-missing-field-initializers'],
                 ['-x', 'c++', '-std=c++17', '-Wno-missing-field-initializers']]
    for cc in sys.argv[3:]:
        for language in languages:
            subprocess.run([cc, *language, *common, '-'], input=code, text=True, check=True)
    print(f'{len(blocks)} blocks compile')
    return 0


sys.exit(main())
