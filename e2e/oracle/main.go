// Command oracle answers scheduling cases with the real plugins of kube-scheduler.
//
// It is for the tests that compare our own plugins with upstream's. One case a
// line comes in on stdin, one result a line goes out on stdout, in the same order:
//
//	oracle < cases.jsonl > results.jsonl
//	oracle -admit < cases.jsonl > problems.jsonl
//	oracle -allocate < cases.jsonl > allocations.jsonl
//
// With -admit no case is scheduled: the objects are validated as the API server
// validates them when they are created. With -allocate a case is a node and
// claims, and the allocator of devices answers alone.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

func main() {
	admit := flag.Bool("admit", false, "validate the objects of each case instead of scheduling its pod")
	devices := flag.Bool("allocate", false, "allocate the claims of each case on its node instead of scheduling a pod")
	workers := flag.Int("j", runtime.NumCPU(), "cases answered at the same time")
	flag.Parse()

	quiet()
	metrics.Register()
	debug.SetGCPercent(400) // Many small, short-lived clusters: memory is cheaper than collecting.
	answer := caseAnswer(schedule)
	switch {
	case *admit:
		answer = caseAnswer(admission)
	case *devices:
		answer = answerAllocation
	}
	if err := serve(os.Stdin, os.Stdout, max(*workers, 1), answer); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

// quiet drops what the plugins log: a result is on stdout, and an error is part of it.
func quiet() {
	klog.SetLoggerWithOptions(klog.Logger{}, klog.ContextualLogger(true))
	utilruntime.ErrorHandlers = nil
	utilruntime.ReallyCrash = false
}

// lineAnswer returns the id of the case on a line, and its result.
type lineAnswer func(line []byte) (id string, result any, err error)

// caseAnswer reads a line as a Case.
func caseAnswer(answer func(*Case) (any, error)) lineAnswer {
	return func(line []byte) (string, any, error) {
		c, err := readCase(line)
		if err != nil {
			return c.ID, nil, err
		}
		result, err := answer(c)
		return c.ID, result, err
	}
}

// serve answers every line of in with one line of out. Lines are answered by
// several workers, and written in the order they came.
func serve(in io.Reader, out io.Writer, workers int, answer lineAnswer) error {
	type job struct {
		line []byte
		done chan []byte
	}
	jobs := make(chan job)
	ordered := make(chan job, 4*workers)
	for range workers {
		go func() {
			for j := range jobs {
				j.done <- answerLine(j.line, answer)
			}
		}()
	}

	var readErr error
	go func() {
		defer close(ordered)
		defer close(jobs)
		reader := bufio.NewReaderSize(in, 1<<20)
		for {
			line, err := reader.ReadBytes('\n')
			if line = bytes.TrimSpace(line); len(line) > 0 {
				j := job{line: line, done: make(chan []byte, 1)}
				ordered <- j
				jobs <- j
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					readErr = err
				}
				return
			}
		}
	}()

	for j := range ordered {
		if _, err := out.Write(append(<-j.done, '\n')); err != nil {
			return err
		}
	}
	return readErr
}

// answerLine never fails: a case that cannot be run becomes its id and an error.
func answerLine(line []byte, answer lineAnswer) (encoded []byte) {
	var id string
	failed := func(err error) []byte {
		encoded, _ := json.Marshal(failure{ID: id, Error: err.Error()})
		return encoded
	}
	defer func() {
		if p := recover(); p != nil {
			c, _ := readCase(line)
			id = c.ID
			encoded = failed(fmt.Errorf("panic: %v", p))
		}
	}()
	id, result, err := answer(line)
	if err != nil {
		return failed(err)
	}
	if encoded, err = json.Marshal(result); err != nil {
		return failed(err)
	}
	return encoded
}
