package main

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

type outcome struct {
	began time.Time
	took  time.Duration
	url   string
	host  string
	err   error
}

type failure struct {
	At      time.Time `json:"at"`
	Seconds float64   `json:"seconds"`
	URL     string    `json:"url"`
	Error   string    `json:"error"`
}

type summary struct {
	Sent     int                `json:"sent"`
	OK       int                `json:"ok"`
	Failed   int                `json:"failed"`
	Kinds    map[string]int     `json:"kinds"`
	Failures []failure          `json:"failures"`
	Latency  map[string]float64 `json:"latencyMilliseconds"`
	Answers  map[string]int     `json:"answersByHost"`
}

type results struct {
	mutex     sync.Mutex
	kinds     map[string]int
	failures  []failure
	latencies []time.Duration
	answers   map[string]int
}

func newResults() *results {
	return &results{kinds: map[string]int{}, failures: []failure{}, answers: map[string]int{}}
}

func (r *results) add(o outcome) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if o.err != nil {
		r.kinds[kindOf(o.err)]++
		r.failures = append(r.failures, failure{o.began.UTC(), o.took.Seconds(), o.url, o.err.Error()})
		return
	}
	r.latencies = append(r.latencies, o.took)
	r.answers[o.host]++
}

func (r *results) summary() summary {
	slices.Sort(r.latencies)
	slices.SortFunc(r.failures, func(a, b failure) int { return a.At.Compare(b.At) })
	quantiles := map[string]float64{}
	for name, share := range map[string]float64{"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999, "max": 1} {
		quantiles[name] = r.quantile(share)
	}
	ok, failed := len(r.latencies), len(r.failures)
	return summary{ok + failed, ok, failed, r.kinds, r.failures, quantiles, r.answers}
}

// quantile is in milliseconds, and 0 without any answer.
func (r *results) quantile(share float64) float64 {
	if len(r.latencies) == 0 {
		return 0
	}
	index := min(int(share*float64(len(r.latencies))), len(r.latencies)-1)
	return float64(r.latencies[index].Microseconds()) / 1000
}

// kindOf is a short name for an error, the same for all that have one cause.
func kindOf(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection reset"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no route"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed"
	}
	return err.Error()
}
