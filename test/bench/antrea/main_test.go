package main

import (
	"strings"
	"testing"
)

// TestSeconds: exactly one benchmark is taken for the result.
func TestSeconds(t *testing.T) {
	const good = "goos: linux\nBenchmarkStored/OneNamespace-2  \t       1\t  35783439 ns/op\t 0.036 cpu-s\nPASS\n"
	for unit, want := range map[string]float64{"ns/op": 0.035783439, "cpu-s": 0.036} {
		if got, err := seconds(good, unit); err != nil || got != want {
			t.Errorf("%v, %v", got, err)
		}
	}
	for _, bad := range []string{"", "PASS\n", good + good, "BenchmarkX 1 x ns/op\n", "BenchmarkX 1 0 ns/op\n"} {
		if got, err := seconds(bad, "ns/op"); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
}

// TestRetimed: benchmarks that would not tell their processor time are refused.
func TestRetimed(t *testing.T) {
	const good = "b.StopTimer()\nb.StartTimer()\nb.StopTimer()\n"
	if got, err := retimed([]byte(good)); err != nil || string(got) != "stopTimer(b)\nstartTimer(b)\nstopTimer(b)\n" {
		t.Errorf("%s, %v", got, err)
	}
	for _, bad := range []string{"", "b.StopTimer()", "b.StartTimer()"} {
		if got, err := retimed([]byte(bad)); err == nil || !strings.Contains(err.Error(), "Timer()") {
			t.Errorf("%q: %s, %v", bad, got, err)
		}
	}
}

// TestLine: the ratio is told as its least, middle and largest, whatever the order of the pairs.
func TestLine(t *testing.T) {
	const want = "| P1: x | 2.00, 3.00, 9.00 s | 1.00, 1.00, 2.00 s | 2.0, 4.0, 9.5 | 2.0 |"
	if got := line("P1: x", []float64{3, 2, 9}, []float64{1, 1, 2}, []float64{9.5, 2, 4}); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := median([]float64{4, 1}); got != 1 {
		t.Error(got)
	}
}
