/* The loops over all nodes that numpy takes several passes for: loops.py says what they return, and does the same in numpy.

   Arguments are contiguous, aligned arrays of one length and of the types that are named; anything else is an error, and
   whoever calls has checked what the numbers mean.  All operations are those of IEEE doubles, one by one in the order of
   loops.py (no fused multiplication), so that results are equal to the last bit. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <float.h>
#include <stdint.h>
#include <string.h>

#if defined(__FAST_MATH__) || FLT_EVAL_METHOD != 0
#error "doubles are not worked out as IEEE 754 says (fast-math, or x87): scores would differ from numpy's"
#endif

/* Of which source this is; loops.py takes no other. */
#ifndef SOURCE_DIGEST
#define SOURCE_DIGEST ""
#endif

/* Where it can be chosen at run time, vectors of four doubles; they compute the same. */
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif

enum { BLOCK = 512, MOST_PARTS = 3, MOST_BUFFERS = 1 + 3 * MOST_PARTS };

typedef struct {
    Py_buffer views[MOST_BUFFERS];
    int count;
} Buffers;

/* What the elements of an array are, as the struct module names them; `l` and `q` are one where long has 64 bits. */
typedef struct {
    const char *formats, *name;
    Py_ssize_t bytes;
} Kind;

static const Kind DOUBLES = {"d", "float64", sizeof(double)};
static const Kind INTS = {sizeof(long) == sizeof(int64_t) ? "lq" : "q", "int64", sizeof(int64_t)};
static const Kind SMALL_INTS = {"h", "int16", sizeof(int16_t)};
static const Kind BOOLS = {"?", "bool", sizeof(uint8_t)};

/* Return the memory of an array of so many elements of a kind, or NULL with an error set. */
static void *memory_of(Buffers *held, PyObject *array, const Kind *kind, int flags, Py_ssize_t length) {
    Py_buffer *view = &held->views[held->count];
    if (PyObject_GetBuffer(array, view, flags | PyBUF_FORMAT) < 0) {
        return NULL;
    }
    held->count++;
    const char *format = view->format == NULL ? "B" : view->format;
    if (strchr(kind->formats, format[0]) == NULL || format[0] == '\0' || format[1] != '\0') {
        PyErr_Format(PyExc_TypeError, "an array has elements of the format %s, %s is needed", format, kind->name);
        return NULL;
    }
    if (view->len != length * kind->bytes) {
        PyErr_Format(PyExc_ValueError, "an array has %zd elements, %zd are needed", view->len / kind->bytes, length);
        return NULL;
    }
    if ((uintptr_t)view->buf % (uintptr_t)kind->bytes != 0) {
        PyErr_SetString(PyExc_ValueError, "the elements of an array are not aligned");
        return NULL;
    }
    return view->buf;
}

static void release(Buffers *held) {
    while (held->count > 0) {
        PyBuffer_Release(&held->views[--held->count]);
    }
}

/* Amounts of one resource on all nodes, and how its share is scored. */
typedef struct {
    const double *kept, *offered;
    const uint8_t *has; /* NULL if all nodes offer some */
    double taken;
    int is_most, weight;
} Part;

/* Add a resource's share in percent, times its weight, to the totals of a block of nodes that starts at `start`. */
WIDE static void add_share(int32_t *restrict totals, const Part *part, Py_ssize_t start, Py_ssize_t length) {
    const double *restrict kept = part->kept + start, *restrict offered = part->offered + start;
    const double taken = part->taken;
    const int32_t weight = part->weight;
    if (part->is_most) {
        for (Py_ssize_t i = 0; i < length; i++) {
            double left = kept[i] - taken;
            left = left > 0.0 ? left : 0.0;
            totals[i] += weight * (int32_t)((offered[i] * 100.0 - left) / offered[i]);
        }
    } else {
        for (Py_ssize_t i = 0; i < length; i++) {
            double left = kept[i] - taken;
            left = left > 0.0 ? left : 0.0;
            totals[i] += weight * (int32_t)(left / offered[i]);
        }
    }
}

/* The same where only some nodes offer the resource; their weights are summed as well. */
static void add_share_of_some(int32_t *restrict totals, int32_t *restrict weights, const Part *part, Py_ssize_t start,
                              Py_ssize_t length) {
    int32_t shares[BLOCK] = {0};
    add_share(shares, part, start, length);
    const uint8_t *restrict has = part->has + start;
    for (Py_ssize_t i = 0; i < length; i++) {
        totals[i] += has[i] ? shares[i] : 0;
        weights[i] += has[i] ? part->weight : 0;
    }
}

/* Fill a part from its tuple; false with an error set if it is none. */
static int read_part(Part *part, PyObject *tuple, Buffers *held, Py_ssize_t size) {
    PyObject *kept, *offered, *has;
    if (!PyTuple_Check(tuple)) {
        PyErr_SetString(PyExc_TypeError, "a part is a tuple");
        return 0;
    }
    if (!PyArg_ParseTuple(tuple, "OOOdpi", &kept, &offered, &has, &part->taken, &part->is_most, &part->weight)) {
        return 0;
    }
    part->has = NULL;
    return (part->kept = memory_of(held, kept, &DOUBLES, PyBUF_SIMPLE, size)) != NULL &&
           (part->offered = memory_of(held, offered, &DOUBLES, PyBUF_SIMPLE, size)) != NULL &&
           (has == Py_None || (part->has = memory_of(held, has, &BOOLS, PyBUF_SIMPLE, size)) != NULL);
}

PyDoc_STRVAR(mean_share_doc, "mean_share(parts, out): see scheduler.state.loops.mean_share");

static PyObject *mean_share(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *tuples, *result = NULL, *out_array;
    Buffers held = {.count = 0};
    Part parts[MOST_PARTS];
    int32_t everywhere = 0;
    if (!PyArg_ParseTuple(args, "O!O:mean_share", &PyTuple_Type, &tuples, &out_array)) {
        return NULL;
    }
    const Py_ssize_t count = PyTuple_Size(tuples), size = PyObject_Length(out_array);
    if (count < 1 || count > MOST_PARTS) {
        PyErr_Format(PyExc_ValueError, "between 1 and %d resources are scored here", MOST_PARTS);
        return NULL;
    }
    int64_t *restrict out = size < 0 ? NULL : memory_of(&held, out_array, &INTS, PyBUF_WRITABLE, size);
    if (out == NULL) {
        goto end;
    }
    for (Py_ssize_t k = 0; k < count; k++) {
        if (!read_part(&parts[k], PyTuple_GetItem(tuples, k), &held, size)) {
            goto end;
        }
        everywhere += parts[k].has == NULL ? parts[k].weight : 0;
    }
    int32_t totals[BLOCK], weights[BLOCK];
    for (Py_ssize_t start = 0; start < size; start += BLOCK) {
        const Py_ssize_t length = size - start < BLOCK ? size - start : BLOCK;
        for (Py_ssize_t i = 0; i < length; i++) {
            totals[i] = 0;
            weights[i] = everywhere;
        }
        for (Py_ssize_t k = 0; k < count; k++) {
            if (parts[k].has == NULL) {
                add_share(totals, &parts[k], start, length);
            } else {
                add_share_of_some(totals, weights, &parts[k], start, length);
            }
        }
        for (Py_ssize_t i = 0; i < length; i++) {
            out[start + i] = (int32_t)((double)totals[i] / (double)(weights[i] > 1 ? weights[i] : 1));
        }
    }
    result = Py_NewRef(Py_None);
end:
    release(&held);
    return result;
}

/* Of both resources what is in use and what is offered. */
WIDE static void gain(const double *const columns[4], const double more[2], const int16_t *restrict base,
                      int64_t *restrict out, Py_ssize_t size) {
    const double *restrict used = columns[0], *restrict offered = columns[1];
    const double *restrict used2 = columns[2], *restrict offered2 = columns[3];
    const double more1 = more[0], more2 = more[1];
    for (Py_ssize_t i = 0; i < size; i++) {
        double first = (used[i] + more1) / offered[i], second = (used2[i] + more2) / offered2[i];
        first = first < 1.0 ? first : 1.0;
        second = second < 1.0 ? second : 1.0;
        const double apart = first > second ? first - second : second - first;
        out[i] = ((int32_t)((2.0 - apart) * 50.0) + base[i]) >> 1;
    }
}

PyDoc_STRVAR(balance_gain_doc, "balance_gain(first, second, base, out): see scheduler.state.loops.balance_gain");

static PyObject *balance_gain(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *arrays[6], *resources[2], *result = NULL;
    Buffers held = {.count = 0};
    double more[2];
    if (!PyArg_ParseTuple(args, "O!O!OO:balance_gain", &PyTuple_Type, &resources[0], &PyTuple_Type, &resources[1],
                          &arrays[4], &arrays[5])) {
        return NULL;
    }
    for (int k = 0; k < 2; k++) {
        if (!PyArg_ParseTuple(resources[k], "OOd:balance_gain", &arrays[2 * k], &arrays[2 * k + 1], &more[k])) {
            return NULL;
        }
    }
    const Py_ssize_t size = PyObject_Length(arrays[5]);
    int64_t *out = size < 0 ? NULL : memory_of(&held, arrays[5], &INTS, PyBUF_WRITABLE, size);
    const int16_t *base = out == NULL ? NULL : memory_of(&held, arrays[4], &SMALL_INTS, PyBUF_SIMPLE, size);
    const double *columns[4] = {NULL, NULL, NULL, NULL};
    for (int k = 0; base != NULL && k < 4; k++) {
        columns[k] = memory_of(&held, arrays[k], &DOUBLES, PyBUF_SIMPLE, size);
        if (columns[k] == NULL) {
            break;
        }
    }
    if (columns[3] == NULL) {
        goto end;
    }
    gain(columns, more, base, out, size);
    result = Py_NewRef(Py_None);
end:
    release(&held);
    return result;
}

PyDoc_STRVAR(sum_by_doc, "sum_by(numbers, counts, out): see scheduler.state.loops.sum_by");

static PyObject *sum_by(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *numbers_array, *counts_array, *out_array, *result = NULL;
    Buffers held = {.count = 0};
    if (!PyArg_ParseTuple(args, "OOO:sum_by", &numbers_array, &counts_array, &out_array)) {
        return NULL;
    }
    const Py_ssize_t size = PyObject_Length(numbers_array), domains = size < 0 ? -1 : PyObject_Length(out_array);
    int64_t *restrict out = domains < 0 ? NULL : memory_of(&held, out_array, &INTS, PyBUF_WRITABLE, domains);
    const int64_t *restrict numbers = out == NULL ? NULL : memory_of(&held, numbers_array, &INTS, PyBUF_SIMPLE, size);
    const int64_t *restrict counts = numbers == NULL ? NULL : memory_of(&held, counts_array, &INTS, PyBUF_SIMPLE, size);
    if (counts == NULL) {
        goto end;
    }
    for (Py_ssize_t i = 0; i < domains; i++) {
        out[i] = 0;
    }
    for (Py_ssize_t i = 0; i < size; i++) {
        if (numbers[i] < 0 || numbers[i] >= domains) {
            PyErr_Format(PyExc_ValueError, "number %lld is none of %zd domains", (long long)numbers[i], domains);
            goto end;
        }
        out[numbers[i]] += counts[i];
    }
    result = Py_NewRef(Py_None);
end:
    release(&held);
    return result;
}

/* What one constraint adds to the number of matching pods near each node. */
typedef struct {
    const int64_t *counts, *numbers; /* by domain and the domain of each node, or by node and NULL */
    Py_ssize_t domains;
    double weight, more;
} Near;

/* Fill it from its tuple; false with an error set if it is none. */
static int read_near(Near *near, PyObject *tuple, Buffers *held, Py_ssize_t size) {
    PyObject *counts, *numbers;
    if (!PyTuple_Check(tuple)) {
        PyErr_SetString(PyExc_TypeError, "a part is a tuple");
        return 0;
    }
    if (!PyArg_ParseTuple(tuple, "OOdd", &counts, &numbers, &near->weight, &near->more)) {
        return 0;
    }
    near->numbers = NULL;
    near->domains = PyObject_Length(counts);
    return near->domains >= 0 && (near->counts = memory_of(held, counts, &INTS, PyBUF_SIMPLE, near->domains)) != NULL &&
           (numbers == Py_None ? (near->domains == size || (PyErr_SetString(PyExc_ValueError, "one count a node"), 0))
                               : (near->numbers = memory_of(held, numbers, &INTS, PyBUF_SIMPLE, size)) != NULL);
}

/* Add one constraint's part to a block of nodes that starts at `start`; false if a node's domain is none.  Pods are fewer than 2**31. */
WIDE static int add_near(double *restrict totals, const Near *near, Py_ssize_t start, Py_ssize_t length) {
    const int64_t *restrict counts = near->counts;
    const double weight = near->weight, more = near->more;
    if (near->numbers == NULL) {
        for (Py_ssize_t i = 0; i < length; i++) {
            totals[i] += (double)(int32_t)counts[start + i] * weight + more;
        }
        return 1;
    }
    const int64_t *restrict numbers = near->numbers + start;
    const uint64_t domains = (uint64_t)near->domains;
    int is_beyond = 0;
    for (Py_ssize_t i = 0; i < length; i++) {
        is_beyond |= (uint64_t)numbers[i] >= domains;
    }
    if (is_beyond) {
        return 0;
    }
    if (domains > BLOCK) {
        for (Py_ssize_t i = 0; i < length; i++) {
            totals[i] += (double)(int32_t)counts[numbers[i]] * weight + more;
        }
        return 1;
    }
    double parts[BLOCK]; /* few domains: each is worked out once */
    for (uint64_t k = 0; k < domains; k++) {
        parts[k] = (double)(int32_t)counts[k] * weight + more;
    }
    for (Py_ssize_t i = 0; i < length; i++) {
        totals[i] += parts[numbers[i]];
    }
    return 1;
}

PyDoc_STRVAR(sum_near_doc, "sum_near(parts, shift, out): see scheduler.state.loops.sum_near");

static PyObject *sum_near(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *tuples, *out_array, *result = NULL;
    Buffers held = {.count = 0};
    Near parts[MOST_PARTS];
    double shift;
    if (!PyArg_ParseTuple(args, "O!dO:sum_near", &PyTuple_Type, &tuples, &shift, &out_array)) {
        return NULL;
    }
    const Py_ssize_t count = PyTuple_Size(tuples), size = PyObject_Length(out_array);
    if (count < 1 || count > MOST_PARTS) {
        PyErr_Format(PyExc_ValueError, "between 1 and %d parts are summed here", MOST_PARTS);
        return NULL;
    }
    int64_t *restrict out = size < 0 ? NULL : memory_of(&held, out_array, &INTS, PyBUF_WRITABLE, size);
    if (out == NULL) {
        goto end;
    }
    for (Py_ssize_t k = 0; k < count; k++) {
        if (!read_near(&parts[k], PyTuple_GetItem(tuples, k), &held, size)) {
            goto end;
        }
    }
    double totals[BLOCK];
    for (Py_ssize_t start = 0; start < size; start += BLOCK) {
        const Py_ssize_t length = size - start < BLOCK ? size - start : BLOCK;
        for (Py_ssize_t i = 0; i < length; i++) {
            totals[i] = 0.0;
        }
        for (Py_ssize_t k = 0; k < count; k++) {
            if (!add_near(totals, &parts[k], start, length)) {
                PyErr_SetString(PyExc_ValueError, "the domain of a node is none that has a count");
                goto end;
            }
        }
        for (Py_ssize_t i = 0; i < length; i++) {
            out[start + i] = (int32_t)(totals[i] + shift);
        }
    }
    result = Py_NewRef(Py_None);
end:
    release(&held);
    return result;
}

/* Write 100 for the lowest of some scores, less for higher ones; false if they are beyond what divides exactly. */
WIDE static int turn(const int64_t *restrict scores, int64_t *restrict out, Py_ssize_t size) {
    int64_t lowest = INT64_MAX, highest = 0;
    for (Py_ssize_t i = 0; i < size; i++) {
        lowest = scores[i] < lowest ? scores[i] : lowest;
        highest = scores[i] > highest ? scores[i] : highest;
    }
    if (lowest < 0 || highest >= ((int64_t)1 << 24)) {
        return 0;
    }
    const double ends = (double)(highest + lowest), most = (double)highest;
    for (Py_ssize_t i = 0; i < size; i++) {
        out[i] = highest == 0 ? 100 : (int32_t)((ends - (double)(int32_t)scores[i]) * 100.0 / most);
    }
    return 1;
}

PyDoc_STRVAR(fewest_best_doc, "fewest_best(scores, out): see scheduler.state.loops.fewest_best");

static PyObject *fewest_best(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *scores_array, *out_array, *result = NULL;
    Buffers held = {.count = 0};
    if (!PyArg_ParseTuple(args, "OO:fewest_best", &scores_array, &out_array)) {
        return NULL;
    }
    const Py_ssize_t size = PyObject_Length(out_array);
    int64_t *restrict out = size < 0 ? NULL : memory_of(&held, out_array, &INTS, PyBUF_WRITABLE, size);
    const int64_t *restrict scores = out == NULL ? NULL : memory_of(&held, scores_array, &INTS, PyBUF_SIMPLE, size);
    if (scores == NULL) {
        goto end;
    }
    result = PyBool_FromLong(turn(scores, out, size));
end:
    release(&held);
    return result;
}

static PyMethodDef methods[] = {
    {"mean_share", mean_share, METH_VARARGS, mean_share_doc},
    {"balance_gain", balance_gain, METH_VARARGS, balance_gain_doc},
    {"sum_by", sum_by, METH_VARARGS, sum_by_doc},
    {"sum_near", sum_near, METH_VARARGS, sum_near_doc},
    {"fewest_best", fewest_best, METH_VARARGS, fewest_best_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_loops", "Loops over all nodes, compiled; loops.py says what they return.", -1, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__loops(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module != NULL && PyModule_AddStringConstant(module, "SOURCE", SOURCE_DIGEST) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
