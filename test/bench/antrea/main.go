// Command antrea builds the benchmarks of an Antrea checkout and ours, runs them side by side and
// prints how much processor time both take, or with -clock how long they take:
//
//	git clone https://github.com/antrea-io/antrea /tmp/antrea
//	go run ./test/bench/antrea -antrea /tmp/antrea
//
// It fetches nothing itself, besides the modules that `go test` needs to build the checkout, and
// writes nothing into it: so that the Antrea benchmarks tell their processor time, the calls that
// start and stop their clock are replaced while they are built.
//
// Both sides begin with informers that hold every decoded object of the same world, and end when
// every computed object is in the store and nobody watches: on their side the functions
// BenchmarkInitXLargeScale..., which call the handlers and workers of the Antrea Controller one
// after another, on ours BenchmarkStored, which runs the policy controller as it is. In each pair
// theirs runs first, then ours, each in a new process, so that what else the machine does meets
// both.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// rows are the worlds, by what each side calls them.
var rows = []struct{ name, theirs, ours string }{
	{"P1: 25,000 Namespaces x 4 Pods, 3 policies each", "SmallNamespaces", "SmallNamespaces"},
	{"P2: 100 Namespaces x 1,000 Pods, 101 policies each", "LargeNamespaces", "LargeNamespaces"},
	{"P3: 10,000 Pods, 10,000 policies, each selects every Pod on both sides", "OneNamespace", "OneNamespace"},
	{"P4: 10,000 Pods, a policy for each", "NetpolPerPod", "PolicyPerPod"},
	{"P5: 10,000 ExternalEntities, an Antrea policy for each", "ANNPPerExternalEntity", "PolicyPerEntity"},
	{"P6: 1,000 Namespaces x 100 Pods, 10 policies each with peers in 10 Namespaces", "ClusterScopedNetpol", "ClusterScoped"},
}

func main() {
	checkout := flag.String("antrea", "", "a checkout of Antrea: git clone https://github.com/antrea-io/antrea")
	modfile := flag.String("modfile", "", "a go.mod to build the checkout with in place of its own, for one of whose modules there is no server")
	pairs := flag.Int("pairs", 5, "pairs of runs per row")
	clock := flag.Bool("clock", false, "compare what the clock says, on a machine that does nothing else, instead of the processor time")
	only := flag.String("rows", "P1,P2,P3,P4,P5,P6", "the rows to run; P4 and P5 take Antrea a quarter of a minute or more each time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	unit := "cpu-s"
	if *clock {
		unit = "ns/op"
	}
	if err := compare(ctx, *checkout, *modfile, unit, *pairs, strings.Split(*only, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "antrea:", err)
		os.Exit(1)
	}
}

// packageOfTheirs has the benchmarks of Antrea, in theirBenchmarks.
const (
	packageOfTheirs = "pkg/controller/networkpolicy"
	theirBenchmarks = "networkpolicy_controller_perf_test.go"
)

func compare(ctx context.Context, checkout, modfile, unit string, pairs int, only []string) error {
	if checkout == "" || pairs < 1 {
		return fmt.Errorf("want -antrea DIR, a checkout of Antrea (git clone https://github.com/antrea-io/antrea), and at least one pair")
	}
	built, err := os.MkdirTemp("", "antrea-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(built)
	theirs, ours := filepath.Join(built, "theirs"), filepath.Join(built, "ours")
	overlay, err := timed(checkout, built)
	if err != nil {
		return err
	}
	args := []string{"test", "-c", "-vet=off", "-o", theirs, "-overlay", overlay}
	if modfile != "" {
		args = append(args, "-mod=mod", "-modfile="+modfile)
	}
	if err := build(ctx, checkout, append(args, "./"+packageOfTheirs)...); err != nil {
		return fmt.Errorf("building the benchmarks of %s: %w", checkout, err)
	}
	if err := build(ctx, ".", "test", "-c", "-vet=off", "-o", ours, "./internal/policy/compute"); err != nil {
		return fmt.Errorf("building our benchmarks, from the root of the project: %w", err)
	}
	fmt.Println("| World | Antrea: min, median, max | Nephele | Ratio of a pair | Of the fastest |")
	fmt.Println("|---|---|---|---|---|")
	for _, row := range rows {
		if id, _, _ := strings.Cut(row.name, ":"); !slices.Contains(only, id) {
			continue
		}
		var a, b, ratios []float64
		for range pairs {
			t, err := run(ctx, theirs, filepath.Join(checkout, packageOfTheirs), "^BenchmarkInitXLargeScaleWith"+row.theirs+"$", unit)
			if err != nil {
				return fmt.Errorf("%s on Antrea's side: %w", row.name, err)
			}
			o, err := run(ctx, ours, "internal/policy/compute", "^BenchmarkStored$/^"+row.ours+"$", unit)
			if err != nil {
				return fmt.Errorf("%s on our side: %w", row.name, err)
			}
			a, b, ratios = append(a, t), append(b, o), append(ratios, t/o)
		}
		fmt.Println(line(row.name, a, b, ratios))
	}
	return nil
}

// timing is Go that stands beside the benchmarks of Antrea: the clock that they start and stop also
// counts the processor time of the process.
const timing = `package networkpolicy

import (
	"syscall"
	"testing"
	"time"
)

var timed struct {
	runs         bool
	begun, spent time.Duration
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func startTimer(b *testing.B) {
	timed.runs, timed.begun = true, processorTime()
	b.StartTimer()
}

func stopTimer(b *testing.B) {
	b.StopTimer()
	if timed.runs {
		timed.runs, timed.spent = false, timed.spent+processorTime()-timed.begun
	}
	b.ReportMetric(timed.spent.Seconds(), "cpu-s")
}
`

// timed writes what is to be built in place of the benchmarks of Antrea into a folder, and returns
// the file that tells the go command so.
func timed(checkout, folder string) (overlay string, err error) {
	checkout, err = filepath.Abs(checkout)
	if err != nil {
		return "", err
	}
	at := filepath.Join(checkout, packageOfTheirs, theirBenchmarks)
	source, err := os.ReadFile(at)
	if err != nil {
		return "", fmt.Errorf("reading the benchmarks of Antrea: %w", err)
	}
	source, err = retimed(source)
	if err != nil {
		return "", fmt.Errorf("%s: %w", at, err)
	}
	replaced := map[string]string{
		at: filepath.Join(folder, "benchmarks.go"),
		filepath.Join(checkout, packageOfTheirs, "timing_of_processor_test.go"): filepath.Join(folder, "timing.go"),
	}
	list, err := json.Marshal(map[string]any{"Replace": replaced})
	overlay = filepath.Join(folder, "overlay.json")
	return overlay, errors.Join(err, os.WriteFile(replaced[at], source, 0o600),
		os.WriteFile(filepath.Join(folder, "timing.go"), []byte(timing), 0o600), os.WriteFile(overlay, list, 0o600))
}

// retimed makes benchmarks use the clock of timing.
func retimed(source []byte) ([]byte, error) {
	for _, call := range []string{"Start", "Stop"} {
		before := []byte("b." + call + "Timer()")
		if !bytes.Contains(source, before) {
			return nil, fmt.Errorf("want a benchmark that calls %s", before)
		}
		source = bytes.ReplaceAll(source, before, []byte(strings.ToLower(call)+"Timer(b)"))
	}
	return source, nil
}

func build(ctx context.Context, dir string, args ...string) error {
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir, c.Stdout, c.Stderr = dir, os.Stderr, os.Stderr
	return c.Run()
}

// run runs one benchmark once, in its package, and returns the seconds that it took in a unit.
func run(ctx context.Context, binary, dir, bench, unit string) (float64, error) {
	c := exec.CommandContext(ctx, binary, "-test.run", "^$", "-test.bench", bench, "-test.benchtime", "1x", "-test.timeout", "1h")
	c.Dir = dir
	out, err := c.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, out)
	}
	return seconds(string(out), unit)
}

// seconds returns the time of the one benchmark in the output of a run, which is in a unit: ns/op
// or cpu-s.
func seconds(out, unit string) (float64, error) {
	found := -1.0
	for text := range strings.Lines(out) {
		fields := strings.Fields(text)
		at := slices.Index(fields, unit)
		if at < 1 {
			continue
		}
		took, err := strconv.ParseFloat(fields[at-1], 64)
		if err != nil || took <= 0 {
			return 0, fmt.Errorf("a time of %q %s, want a positive number", fields[at-1], unit)
		}
		if found >= 0 {
			return 0, fmt.Errorf("more than one benchmark ran: %s", out)
		}
		if found = took; unit == "ns/op" {
			found /= 1e9
		}
	}
	if found < 0 {
		return 0, fmt.Errorf("no benchmark ran: %s", out)
	}
	return found, nil
}

// line is a row of the table.
func line(name string, theirs, ours, ratios []float64) string {
	return fmt.Sprintf("| %s | %s s | %s s | %s | %.1f |", name, spread(theirs, "%.2f"), spread(ours, "%.2f"), spread(ratios, "%.1f"),
		slices.Min(theirs)/slices.Min(ours))
}

// spread is the least, the median and the largest.
func spread(of []float64, format string) string {
	return fmt.Sprintf(strings.Join([]string{format, format, format}, ", "), slices.Min(of), median(of), slices.Max(of))
}

// median is the middle one, of an even number the lower of the two.
func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[(len(sorted)-1)/2]
}
