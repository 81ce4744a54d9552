/* The .npy reader and writer of the program: every form that NumPy writes, and what a hostile file may try. */
#define _POSIX_C_SOURCE 200809L
#include "npy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[] = "/tmp/clmoe_test_npy_XXXXXX";
static char path[64];
static char error[256];

static int make_directory(void **state) {
    (void)state;
    if (!mkdtemp(directory)) {
        return -1;
    }
    snprintf(path, sizeof path, "%s/array.npy", directory);
    return 0;
}

static int remove_directory(void **state) {
    (void)state;
    unlink(path);
    return rmdir(directory);
}

/* ---- Files made by hand --------------------------------------------------------------------------------------------------------- */

static void write_file(const void *first, size_t first_bytes, const void *second, size_t second_bytes) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(first, 1, first_bytes, file), first_bytes);
    assert_int_equal(fwrite(second, 1, second_bytes, file), second_bytes);
    assert_int_equal(fclose(file), 0);
}

/* A file with this dict, as NumPy lays it out: padded with blanks, ended by a newline, data from byte 128 on. */
static void write_npy(int version, const char *dict, const void *data, size_t data_bytes) {
    unsigned char start[128];
    const size_t prefix_bytes = version == 1 ? 10 : 12, text_bytes = sizeof start - prefix_bytes;
    memset(start, ' ', sizeof start);
    memcpy(start, "\x93NUMPY", 6);
    start[6] = (unsigned char)version;
    start[7] = 0;
    start[8] = (unsigned char)text_bytes;
    start[9] = 0;
    if (version > 1) {
        start[10] = start[11] = 0;
    }
    assert_true(strlen(dict) < text_bytes);
    memcpy(start + prefix_bytes, dict, strlen(dict));
    start[sizeof start - 1] = '\n';
    write_file(start, sizeof start, data, data_bytes);
}

static void assert_refused(const char *words) {
    npy_array array;
    memset(&array, 0xff, sizeof array);
    error[0] = 0;
    assert_false(npy_read(path, &array, error, sizeof error));
    assert_null(array.data);
    assert_null(array.memory);
    if (!strstr(error, words)) {
        fail_msg("\"%s\" does not say \"%s\"", error, words);
    }
    assert_null(strchr(error, '\n'));
}

static npy_array read_back(void) {
    npy_array array;
    if (!npy_read(path, &array, error, sizeof error)) {
        fail_msg("refused: %s", error);
    }
    return array;
}

static void assert_dict_refused(const char *dict, const char *words) {
    static const int32_t data[6] = {0, 1, 2, 3, 4, 5};
    write_npy(1, dict, data, sizeof data);
    assert_refused(words);
}

/* ---- Forms ---------------------------------------------------------------------------------------------------------------------- */

static void versions_and_orders(void **state) {
    static const int32_t c_order[6] = {0, 1, 2, 3, 4, 5}, fortran_order[6] = {0, 3, 1, 4, 2, 5};
    (void)state;
    for (int version = 1; version <= 3; version++) {
        for (int fortran = 0; fortran < 2; fortran++) {
            write_npy(version,
                      fortran ? "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }"
                              : "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }",
                      fortran ? fortran_order : c_order, sizeof c_order);
            npy_array array = read_back();
            assert_int_equal(array.num_dims, 2);
            assert_int_equal(array.shape[0], 2);
            assert_int_equal(array.shape[1], 3);
            for (size_t i = 0; i < 6; i++) {
                assert_int_equal(npy_integer(&array, i), i);
            }
            npy_free(&array);
        }
    }
}

static void fortran_order_of_three_dimensions(void **state) {
    unsigned char data[24];
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        for (size_t j = 0; j < 3; j++) {
            for (size_t k = 0; k < 4; k++) {
                data[i + 2 * j + 6 * k] = (unsigned char)(i * 12 + j * 4 + k);
            }
        }
    }
    write_npy(1, "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3, 4), }", data, sizeof data);
    npy_array array = read_back();
    for (size_t i = 0; i < 24; i++) {
        assert_int_equal(npy_integer(&array, i), i);
    }
    npy_free(&array);
}

static void integer_types_in_both_byte_orders(void **state) {
    /* The value 0x81 and then F0 ... : negative where the type is signed. */
    static const struct {
        const char *descr;
        unsigned char data[8];
        size_t bytes;
        int64_t value;
    } cases[] = {
        {"|i1", {0x81}, 1, -127},
        {"|u1", {0x81}, 1, 129},
        {"<i2", {0x01, 0x80}, 2, -32767},
        {">i2", {0x80, 0x01}, 2, -32767},
        {"<u2", {0x01, 0x80}, 2, 32769},
        {">u2", {0x80, 0x01}, 2, 32769},
        {"<i4", {0xfe, 0xff, 0xff, 0xff}, 4, -2},
        {">i4", {0xff, 0xff, 0xff, 0xfe}, 4, -2},
        {"<u4", {0xfe, 0xff, 0xff, 0xff}, 4, 4294967294},
        {">u4", {0xff, 0xff, 0xff, 0xfe}, 4, 4294967294},
        {"<i8", {0x00, 0, 0, 0, 0, 0, 0, 0x80}, 8, INT64_MIN},
        {">i8", {0, 0, 0, 1, 0, 0, 0, 2}, 8, 4294967298},
        {"<u8", {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 8, INT64_MAX},
        {">u8", {0, 0, 0, 1, 0, 0, 0, 2}, 8, 4294967298},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char dict[100];
        snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (1,), }", cases[i].descr);
        write_npy(1, dict, cases[i].data, cases[i].bytes);
        npy_array array = read_back();
        assert_true(npy_is_integer(&array));
        assert_true(npy_integer(&array, 0) == cases[i].value);
        npy_free(&array);
    }
}

static void bool_and_floats(void **state) {
    static const unsigned char bools[2] = {1, 0}, big_float[4] = {0x3f, 0x80, 0, 0}, half[2] = {0x00, 0x3c}, big_half[2] = {0x3c, 0x00};
    static const double pi = 3.25;
    float value;
    uint16_t bits;
    (void)state;
    write_npy(1, "{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }", bools, 2);
    npy_array array = read_back();
    assert_int_equal(array.kind, 'b');
    assert_false(npy_is_integer(&array));
    assert_memory_equal(array.data, bools, 2);
    npy_free(&array);

    write_npy(1, "{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", big_float, 4);
    array = read_back();
    memcpy(&value, array.data, 4);
    assert_true(value == 1.0f);
    npy_free(&array);

    write_npy(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (), }", &pi, 8);
    array = read_back();
    assert_memory_equal(array.data, &pi, 8);
    npy_free(&array);

    write_npy(1, "{'descr': '<f2', 'fortran_order': False, 'shape': (1,), }", half, 2);
    array = read_back();
    memcpy(&bits, array.data, 2);
    assert_int_equal(bits, 0x3c00);
    npy_free(&array);

    write_npy(1, "{'descr': '>f2', 'fortran_order': False, 'shape': (1,), }", big_half, 2);
    array = read_back();
    memcpy(&bits, array.data, 2);
    assert_int_equal(bits, 0x3c00);
    npy_free(&array);
}

static void shapes(void **state) {
    static const struct {
        const char *shape;
        uint32_t num_dims;
        size_t first, second, num_items;
    } cases[] = {{"()", 0, 0, 0, 1},       {"(1,)", 1, 1, 0, 1},    {"(768,)", 1, 768, 0, 768},
                 {"(0,)", 1, 0, 0, 0},     {"(0, 4)", 2, 0, 4, 0},  {"(3, 0)", 2, 3, 0, 0},
                 {"(2, 3, )", 2, 2, 3, 6}, {"( 2 ,3)", 2, 2, 3, 6}, {"(768 , )", 1, 768, 0, 768}};
    static const int32_t data[768] = {0};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char dict[100];
        snprintf(dict, sizeof dict, "{'descr': '<i4', 'fortran_order': False, 'shape': %s, }", cases[i].shape);
        write_npy(1, dict, data, cases[i].num_items * 4);
        npy_array array = read_back();
        assert_int_equal(array.num_dims, cases[i].num_dims);
        assert_int_equal(array.num_items, cases[i].num_items);
        assert_true(array.num_dims < 1 || array.shape[0] == cases[i].first);
        assert_true(array.num_dims < 2 || array.shape[1] == cases[i].second);
        assert_non_null(array.data);
        npy_free(&array);
    }
}

static void spellings_of_the_header(void **state) {
    static const char *const dicts[] = {"{\"shape\": (2, 3), \"fortran_order\": False, \"descr\": \"<i4\"}",
                                        "{'shape':(2,3),'descr':'<i4','fortran_order':False}",
                                        "{ 'fortran_order' : False , 'descr' : '<i4' ,\n 'shape' : ( 2 , 3 , ) , }"};
    static const int32_t data[6] = {0, 1, 2, 3, 4, 5};
    (void)state;
    for (size_t i = 0; i < sizeof dicts / sizeof dicts[0]; i++) {
        write_npy(1, dicts[i], data, sizeof data);
        npy_array array = read_back();
        assert_int_equal(npy_integer(&array, 5), 5);
        npy_free(&array);
    }
}

/* ---- Refusals ------------------------------------------------------------------------------------------------------------------- */

static void files_that_are_none(void **state) {
    static const char start[12] = "\x93NUMPY\x01\x00\x76\x00{'";
    (void)state;
    for (size_t bytes = 0; bytes < 10; bytes++) {
        write_file(start, bytes, "", 0);
        assert_refused("too short");
    }
    write_file(start, 11, "", 0);
    assert_refused("ends inside its header");
    write_file("\x93NUMPY\x02\x00\x76\x00\x00", 11, "", 0);
    assert_refused("too short");
    write_file("PK\x03\x04 something else entirely", 29, "", 0);
    assert_refused("not a .npy file");
    write_file("\x93NUMPY\x04\x00\x76\x00{'", 12, start, 12);
    assert_refused("version 4");
    unlink(path);
    assert_refused("No such file");
}

static void wrong_amount_of_data(void **state) {
    static const char data[4004] = {0};
    static const char dict[] = "{'descr': '<i4', 'fortran_order': False, 'shape': (1000,), }";
    (void)state;
    write_npy(1, dict, data, 3996);
    assert_refused("data is short: expected 4000 bytes, found 3996");
    write_npy(1, dict, data, 4004);
    assert_refused("data is too long: expected 4000 bytes, found 4004");
}

static void sizes_beyond_reason(void **state) {
    (void)state;
    assert_dict_refused("{'descr': '<i4', 'fortran_order': False, 'shape': (4611686018427387904,), }", "more items than any memory");
    assert_dict_refused("{'descr': '|u1', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", "more items than any memory");
    assert_dict_refused("{'descr': '<i8', 'fortran_order': False, 'shape': (1152921504606846976,), }", "data is short");
    assert_dict_refused("{'descr': '<i4', 'fortran_order': False, 'shape': (99999999999999999999999,), }", "too large");
    assert_dict_refused("{'descr': '|u1', 'fortran_order': False, 'shape': (9000000000000000000,), }", "data is short");
    /* A 0 anywhere: no items, whatever the others are; but then the data must be empty. */
    assert_dict_refused("{'descr': '<i4', 'fortran_order': True, 'shape': (9223372036854775807, 0, 9223372036854775807), }",
                        "expected 0 bytes");
    assert_dict_refused("{'descr': '<i4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1), }",
                        "data is too long");
}

static void long_headers(void **state) {
    static const unsigned char start[12] = {0x93, 'N', 'U', 'M', 'P', 'Y', 2, 0, 0xff, 0xff, 0xff, 0xff};
    static const unsigned char longer[12] = {0x93, 'N', 'U', 'M', 'P', 'Y', 2, 0, 1, 0, 1, 0};
    static const char dict[] = "{'descr': '<i4', 'fortran_order': False, 'shape': (0,)}";
    char *blanks = malloc(70000);
    (void)state;
    assert_non_null(blanks);
    memset(blanks, ' ', 70000);
    memcpy(blanks, dict, strlen(dict));
    write_file(start, sizeof start, blanks, 70000);
    assert_refused("longer than 65536");
    write_file(longer, sizeof longer, blanks, 65537);
    assert_refused("longer than 65536");
    /* 65535 bytes is the most that version 1 can have. */
    write_file("\x93NUMPY\x01\x00\xff\xff", 10, blanks, 65535);
    npy_array array = read_back();
    assert_int_equal(array.num_items, 0);
    npy_free(&array);
    free(blanks);
}

static void headers_that_are_no_plain_dict(void **state) {
    (void)state;
    assert_dict_refused("{'descr': '<i4', 'fortran_order': False, }", "key 'shape' is missing");
    assert_dict_refused("{'descr': '<i4', 'shape': (6,), }", "key 'fortran_order' is missing");
    assert_dict_refused("{}", "is missing");
    assert_dict_refused("{'descr': '<i4', 'descr': '<i4', 'fortran_order': False, 'shape': (6,), }", "key 'descr' is there twice");
    assert_dict_refused("{'descr': '<i4', 'fortran_order': False, 'shape': (6,), 'colour': 1}", "key 'colour' is unknown");
    assert_dict_refused("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (6,), }", "structured");
    assert_dict_refused("{'descr': ('<i4', (2,)), 'fortran_order': False, 'shape': (3,), }", "structured");
    assert_dict_refused("{'descr': '|O', 'fortran_order': False, 'shape': (6,), }", "element type '|O'");
    assert_dict_refused("{'descr': '<c8', 'fortran_order': False, 'shape': (3,), }", "element type '<c8'");
    assert_dict_refused("{'descr': '<U6', 'fortran_order': False, 'shape': (1,), }", "element type '<U6'");
    assert_dict_refused("{'descr': '|i4', 'fortran_order': False, 'shape': (6,), }", "element type '|i4'");
    assert_dict_refused("{'descr': '<f1', 'fortran_order': False, 'shape': (6,), }", "element type '<f1'");
    assert_dict_refused("{'descr': '<i16', 'fortran_order': False, 'shape': (6,), }", "element type '<i16'");
    assert_dict_refused("{'descr': '', 'fortran_order': False, 'shape': (6,), }", "element type ''");
    assert_dict_refused("{'descr': '<i4', 'fortran_order': 0, 'shape': (6,), }", "fortran_order");
    assert_dict_refused("{'descr': '<i4', 'fortran_order': False, 'shape': (6), }", "shape");
    assert_dict_refused("{'descr': '<i4', 'fortran_order': False, 'shape': 6, }", "'('");
    assert_dict_refused("{'descr': '<i4', 'fortran_order': False, 'shape': (-6,), }", "shape");
    assert_dict_refused("{'descr': '<i4', 'fortran_order': False, 'shape': (,), }", "shape");
    assert_dict_refused("{'descr': '<i4', 'fortran_order': False, 'shape': (2 3), }", "shape");
    assert_dict_refused("{'descr': '<i4', 'fortran_order': False, 'shape': (6", "shape");
    assert_dict_refused("{'descr': '<i4' 'fortran_order': False, 'shape': (6,), }", "','");
    assert_dict_refused("{'descr': '<i4', 'fortran_order': False, 'shape': (6,), } or 1", "follows");
    assert_dict_refused("{'descr': '<i4", "string");
    assert_dict_refused("", "'{'");
}

static void no_header_may_crash_the_reader(void **state) {
    static const char dict[] = "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }";
    static const int32_t data[6] = {0, 1, 2, 3, 4, 5};
    static const char letters[] = "\0'\"(){}[],:<>|-90 \nTFx\xff\\";
    uint32_t random = 1;
    (void)state;
    for (int round = 0; round < 4000; round++) {
        char changed[sizeof dict];
        npy_array array;
        memcpy(changed, dict, sizeof dict);
        for (int change = 0; change <= round % 3; change++) {
            random = random * 1664525u + 1013904223u;
            changed[(random >> 16) % (sizeof dict - 1)] = letters[(random >> 8) % (sizeof letters - 1)];
        }
        write_npy(1 + round % 3, changed, data, sizeof data);
        if (npy_read(path, &array, error, sizeof error)) {
            assert_true(array.num_items * array.item_bytes == sizeof data);
        }
        npy_free(&array);
    }
}

/* ---- Writing and access --------------------------------------------------------------------------------------------------------- */

static void write_array(char kind, uint32_t item_bytes, uint32_t num_dims, const size_t *shape, const void *data) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_true(npy_write(file, kind, item_bytes, num_dims, shape, data));
    assert_int_equal(fclose(file), 0);
}

static void written_bytes(void **state) {
    static const char expected[] = "\x93NUMPY\x01\x00\x76\x00{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }";
    static const size_t shape[1] = {2};
    static const int32_t data[2] = {1, -1};
    static const unsigned char tail[8] = {1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff};
    char bytes[256];
    (void)state;
    write_array('i', 4, 1, shape, data);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(bytes, 1, sizeof bytes, file), 136);
    fclose(file);
    assert_memory_equal(bytes, expected, sizeof expected - 1);
    for (size_t i = sizeof expected - 1; i < 127; i++) {
        assert_int_equal(bytes[i], ' ');
    }
    assert_int_equal(bytes[127], '\n');
    assert_memory_equal(bytes + 128, tail, sizeof tail);
}

static void written_shapes_come_back(void **state) {
    static const size_t shapes_written[][4] = {{0}, {0}, {5}, {0, 8}, {2, 3}, {2, 3, 4}, {1, 1, 1, 1}};
    static const uint32_t num_dims[] = {0, 1, 1, 2, 2, 3, 4};
    static const float data[24] = {1, 2, 3, 4, 5, 6};
    (void)state;
    for (size_t i = 0; i < sizeof num_dims / sizeof num_dims[0]; i++) {
        write_array('f', 4, num_dims[i], shapes_written[i], data);
        npy_array array = read_back();
        assert_int_equal(array.kind, 'f');
        assert_int_equal(array.num_dims, num_dims[i]);
        assert_memory_equal(array.shape, shapes_written[i], num_dims[i] * sizeof(size_t));
        assert_memory_equal(array.data, data, array.num_items * 4);
        npy_free(&array);
    }
}

static void most_dimensions(void **state) {
    size_t shape[NPY_MAX_DIMS];
    const unsigned char item = 7;
    (void)state;
    for (size_t d = 0; d < NPY_MAX_DIMS; d++) {
        shape[d] = 1;
    }
    write_array('u', 1, NPY_MAX_DIMS, shape, &item);
    npy_array array = read_back();
    assert_int_equal(array.num_dims, NPY_MAX_DIMS);
    assert_int_equal(npy_integer(&array, 0), 7);
    npy_free(&array);
}

static void picking_and_describing(void **state) {
    static const size_t shape[3] = {2, 3, 4};
    int32_t data[24];
    char text[64];
    (void)state;
    for (int32_t i = 0; i < 24; i++) {
        data[i] = i;
    }
    write_array('i', 4, 3, shape, data);
    npy_array array = read_back();
    npy_describe(&array, text, sizeof text);
    assert_string_equal(text, "int32 (2, 3, 4)");
    npy_pick(&array, 1);
    npy_describe(&array, text, sizeof text);
    assert_string_equal(text, "int32 (3, 4)");
    npy_pick(&array, 2);
    npy_describe(&array, text, sizeof text);
    assert_string_equal(text, "int32 (4,)");
    assert_int_equal(array.num_items, 4);
    assert_int_equal(npy_integer(&array, 0), 20);
    npy_free(&array);
    npy_free(&array);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_and_orders),
        cmocka_unit_test(fortran_order_of_three_dimensions),
        cmocka_unit_test(integer_types_in_both_byte_orders),
        cmocka_unit_test(bool_and_floats),
        cmocka_unit_test(shapes),
        cmocka_unit_test(spellings_of_the_header),
        cmocka_unit_test(files_that_are_none),
        cmocka_unit_test(wrong_amount_of_data),
        cmocka_unit_test(sizes_beyond_reason),
        cmocka_unit_test(long_headers),
        cmocka_unit_test(headers_that_are_no_plain_dict),
        cmocka_unit_test(no_header_may_crash_the_reader),
        cmocka_unit_test(written_bytes),
        cmocka_unit_test(written_shapes_come_back),
        cmocka_unit_test(most_dimensions),
        cmocka_unit_test(picking_and_describing),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
