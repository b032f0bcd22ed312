package main

import "testing"

// TestSeconds: exactly one benchmark is taken for the result.
func TestSeconds(t *testing.T) {
	const good = "goos: linux\nBenchmarkStored/OneNamespace-2  \t       1\t  35783439 ns/op\t 0.036 cpu-s\nPASS\n"
	if got, err := seconds(good); err != nil || got != 0.035783439 {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "PASS\n", good + good, "BenchmarkX 1 x ns/op\n", "BenchmarkX 1 0 ns/op\n"} {
		if got, err := seconds(bad); err == nil {
			t.Errorf("%q: %v", bad, got)
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
