#!/bin/sh
# The public headers compile alone, together and beside what engines include, as C and as C++. All
# have at most 400 lines together.
# usage: headers_test.sh [HEADER...]     names in include/kquant; all if none is given
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
if [ $# -eq 0 ]; then
    set -- kquant.h vulkan.h opencl.h
fi
headers=$*
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
wrong=0
done=0
skipped=

lines=$(cat "$root"/include/kquant/*.h | wc -l)
if [ "$lines" -gt 400 ]; then
    echo "headers_test: $lines lines"
    wrong=1
fi

# has HEADER: is it among those to test?
has()
{
    case " $headers " in
    *" $1 "*) return 0 ;;
    *) return 1 ;;
    esac
}

# A use of what C++ reads in another way than C: initialisers, enums, macros and linkage.
use='
static const kq_status preset = KQ_STATUS_PRESET;
static const kq_view view = {0, KQ_BROADCAST, 0, 1};
size_t use(void);
size_t use(void)
{
    size_t count = 0;
    kq_kernels(&count);
    return count + preset.lowest_bad + view.G + KQ_BLOCK + (kq_result_name(KQ_OK) != NULL);
}'

# What vulkan_core.h had in version 1.0, as far as it is asked for: handles and function pointers.
mkdir -p "$tmp/stub/vulkan"
cat >"$tmp/stub/vulkan/vulkan_core.h" <<'END'
#ifndef VULKAN_CORE_H_
#define VULKAN_CORE_H_ 1
typedef struct VkInstance_T *VkInstance;
typedef struct VkPhysicalDevice_T *VkPhysicalDevice;
typedef struct VkDevice_T *VkDevice;
typedef struct VkCommandBuffer_T *VkCommandBuffer;
typedef struct VkBuffer_T *VkBuffer;
typedef struct VkDescriptorSet_T *VkDescriptorSet;
typedef struct VkDescriptorSetLayout_T *VkDescriptorSetLayout;
typedef struct VkPipelineCache_T *VkPipelineCache;
typedef struct VkAllocationCallbacks VkAllocationCallbacks;
typedef void (*PFN_vkVoidFunction)(void);
typedef PFN_vkVoidFunction (*PFN_vkGetInstanceProcAddr)(VkInstance instance, const char *name);
#endif
END

# compile LANGUAGE STANDARD COMPILER TEXT...: one translation unit of these lines, in silence
compile()
{
    language=$1
    standard=$2
    compiler=$3
    shift 3
    printf '%s\n' "$@" >"$tmp/unit.$language"
    done=$((done + 1))
    if ! "$compiler" -std="$standard" -Wall -Wextra -pedantic -Werror -I"$root/include" \
        $output "$tmp/unit.$language" >"$tmp/log" 2>&1; then
        echo "headers_test: $compiler -std=$standard: $(grep '^#' "$tmp/unit.$language" | xargs)"
        head -n 5 "$tmp/log"
        wrong=1
    fi
}

# units LANGUAGE STANDARD COMPILER: all combinations of includes
units()
{
    output=-fsyntax-only
    for header in $headers; do
        compile "$@" "#include <kquant/$header>" "#include <kquant/$header>" "$use"
    done
    output="-c -o $tmp/unit.o"
    compile "$@" "$(printf '#include <kquant/%s>\n' $headers)" "$use"
    output=-fsyntax-only
    # In C++ and C alike the library's functions have C names.
    if command -v nm >/dev/null && ! nm "$tmp/unit.o" | grep -q ' U _*kq_kernels$'; then
        echo "headers_test: $3 -std=$2 gives kq_kernels another name"
        wrong=1
    fi
    if has vulkan.h; then
        compile "$@" '#include <volk.h>' '#include <kquant/vulkan.h>' "$use"
        compile "$@" '#define VK_NO_PROTOTYPES' '#include <kquant/vulkan.h>' "$use"
        compile "$@" '#include <vulkan/vulkan.h>' '#include <kquant/vulkan.h>' "$use"
        output="-fsyntax-only -I$tmp/stub"
        compile "$@" '#include <kquant/vulkan.h>' "$use"
        output=-fsyntax-only
    fi
    if has opencl.h; then
        compile "$@" '#define CL_TARGET_OPENCL_VERSION 300' '#include <CL/opencl.h>' \
            '#include <kquant/opencl.h>' "$use"
    fi
    if has vulkan.h && has opencl.h; then
        compile "$@" '#include <volk.h>' '#include <kquant/opencl.h>' '#include <kquant/vulkan.h>' \
            '#include <kquant/kquant.h>' "$use"
    fi
}

# first NAME...: the first of these that is there
first()
{
    for name; do
        if command -v "$name" >/dev/null; then
            echo "$name"
            return
        fi
    done
}

for standard in c99 c11 c++11 c++17; do
    for family in gcc clang; do
        case $family:$standard in
        gcc:c++*) compiler=$(first g++) ;;
        gcc:*) compiler=$(first gcc) ;;
        clang:c++*) compiler=$(first clang++ clang++-14) ;;
        *) compiler=$(first clang clang-14) ;;
        esac
        if [ -z "$compiler" ]; then
            skipped="$skipped $family:$standard"
            continue
        fi
        case $standard in
        c++*) units cc "$standard" "$compiler" ;;
        *) units c "$standard" "$compiler" ;;
        esac
    done
done

echo "headers_test: $lines lines; $done units of $headers${skipped:+; no compiler for$skipped}"
if [ $wrong -eq 0 ] && [ -n "$skipped" ]; then
    exit 77
fi
exit $wrong
