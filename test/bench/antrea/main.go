// Command antrea builds the benchmarks of an Antrea checkout and ours, runs them side by side and
// prints how long both take:
//
//	git clone https://github.com/antrea-io/antrea /tmp/antrea
//	go run ./test/bench/antrea -antrea /tmp/antrea
//
// It fetches nothing itself, besides the modules that `go test` needs to build the checkout, and
// writes nothing into it.
//
// Both sides begin with informers that hold every decoded object of the same world, and end when
// every computed object is in the store and nobody watches: on their side the functions
// BenchmarkInitXLargeScale..., which call the handlers and workers of the Antrea Controller one
// after another, on ours BenchmarkStored, which runs the policy controller as it is. In each pair
// theirs runs first, then ours, each in a new process, so that what else the machine does meets
// both.
package main

import (
	"context"
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
	only := flag.String("rows", "P1,P2,P3,P4,P5,P6", "the rows to run; P4 and P5 take Antrea two minutes each time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := compare(ctx, *checkout, *modfile, *pairs, strings.Split(*only, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "antrea:", err)
		os.Exit(1)
	}
}

func compare(ctx context.Context, checkout, modfile string, pairs int, only []string) error {
	if checkout == "" || pairs < 1 {
		return fmt.Errorf("want -antrea DIR, a checkout of Antrea (git clone https://github.com/antrea-io/antrea), and at least one pair")
	}
	built, err := os.MkdirTemp("", "antrea-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(built)
	const packageOfTheirs = "pkg/controller/networkpolicy"
	theirs, ours := filepath.Join(built, "theirs"), filepath.Join(built, "ours")
	args := []string{"test", "-c", "-o", theirs}
	if modfile != "" {
		args = append(args, "-mod=mod", "-modfile="+modfile)
	}
	if err := build(ctx, checkout, append(args, "./"+packageOfTheirs)...); err != nil {
		return fmt.Errorf("building the benchmarks of %s: %w", checkout, err)
	}
	if err := build(ctx, ".", "test", "-c", "-o", ours, "./internal/policy"); err != nil {
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
			t, err := run(ctx, theirs, filepath.Join(checkout, packageOfTheirs), "^BenchmarkInitXLargeScaleWith"+row.theirs+"$")
			if err != nil {
				return fmt.Errorf("%s on Antrea's side: %w", row.name, err)
			}
			o, err := run(ctx, ours, "internal/policy", "^BenchmarkStored$/^"+row.ours+"$")
			if err != nil {
				return fmt.Errorf("%s on our side: %w", row.name, err)
			}
			a, b, ratios = append(a, t), append(b, o), append(ratios, t/o)
		}
		fmt.Println(line(row.name, a, b, ratios))
	}
	return nil
}

func build(ctx context.Context, dir string, args ...string) error {
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir, c.Stdout, c.Stderr = dir, os.Stderr, os.Stderr
	return c.Run()
}

// run runs one benchmark once, in its package, and returns the seconds that it took.
func run(ctx context.Context, binary, dir, bench string) (float64, error) {
	c := exec.CommandContext(ctx, binary, "-test.run", "^$", "-test.bench", bench, "-test.benchtime", "1x", "-test.timeout", "1h")
	c.Dir = dir
	out, err := c.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, out)
	}
	return seconds(string(out))
}

// seconds returns the time of the one benchmark in the output of a run.
func seconds(out string) (float64, error) {
	found := -1.0
	for text := range strings.Lines(out) {
		fields := strings.Fields(text)
		at := slices.Index(fields, "ns/op")
		if at < 1 {
			continue
		}
		ns, err := strconv.ParseFloat(fields[at-1], 64)
		if err != nil || ns <= 0 {
			return 0, fmt.Errorf("a time of %q ns/op, want a positive number", fields[at-1])
		}
		if found >= 0 {
			return 0, fmt.Errorf("more than one benchmark ran: %s", out)
		}
		found = ns / 1e9
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
