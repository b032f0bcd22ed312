// Command tests runs one tier of the checks and tests of this repository. docs/testing.md says what
// each tier proves.
//
//	tests [flags] check|test|long
//
// It runs one part after the other, shows what fails and what could not be proven here, and says
// the sum in its last line. What each part of "long" gave is kept below dist/, so that an
// interrupted run goes on where it was as long as the sources are the same.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("tests", flag.ContinueOnError)
	only := flags.String("parts", "", "names of parts with commas between them: run these only")
	fresh := flags.Bool("fresh", false, "run all parts of the long tier again, also those that have held")
	slowest := flags.Int("slowest", 0, "print so many of the slowest tests at the end")
	if err := flags.Parse(args); err != nil {
		return err
	}
	sources, err := sourcesID(ctx)
	if err != nil {
		if flags.Arg(0) == "long" {
			return err
		}
		sources = fmt.Sprint("unknown-", time.Now().UnixNano()) // without git no former result counts
	}
	parts, err := tierOf(ctx, flags.Arg(0), state{sources: sources, machine: machine(isInstalled)})
	if err != nil {
		return err
	}
	if parts, err = choose(parts, *only); err != nil {
		return err
	}
	r := &runner{out: os.Stdout, begin: time.Now()}
	if flags.Arg(0) == "long" {
		err = r.long(ctx, parts, sources, *fresh)
	} else {
		err = r.inOrder(ctx, parts)
		r.printCosts()
	}
	r.printSlowest(*slowest)
	if err != nil {
		return err
	}
	fmt.Fprintf(r.out, "\n%s\n", r.lastLine())
	return nil
}

// choose returns the parts whose names are listed, all of them if none is.
func choose(parts []part, names string) ([]part, error) {
	if names == "" {
		return parts, nil
	}
	var out []part
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(parts, func(p part) bool { return p.name == name })
		if i < 0 {
			var known []string
			for _, p := range parts {
				known = append(known, p.name)
			}
			return nil, fmt.Errorf("there is no part %q; the parts are %s", name, strings.Join(known, ","))
		}
		out = append(out, parts[i])
	}
	return out, nil
}

// inOrder runs all parts, also after one has failed: so that one run reports every failure.
func (r *runner) inOrder(ctx context.Context, parts []part) error {
	var failed []error
	for _, p := range parts {
		if ctx.Err() != nil {
			break
		}
		fmt.Fprintf(r.out, "\n==> %s\n", p.title)
		if err := r.part(ctx, p); err != nil {
			fmt.Fprintln(r.out, err)
			failed = append(failed, fmt.Errorf("%s: %w", p.title, err))
		}
	}
	if len(failed) > 0 || ctx.Err() != nil {
		return fmt.Errorf("\nNOT ALL CHECKS AND TESTS HAVE PASSED:\n%w", errors.Join(append(failed, ctx.Err())...))
	}
	return nil
}

// rareCollection saves a sixth of the processor time of compilers and tests, for memory that the
// machine has. Tests that measure memory have none of it.
const rareCollection = "GOGC=400"

// part runs one part.
func (r *runner) part(ctx context.Context, p part) error {
	cost := cost{of: p.title}
	defer func() { r.costs = append(r.costs, cost) }()
	for _, c := range p.commands {
		begin := time.Now()
		cmd := exec.CommandContext(ctx, c[0], c[1:]...)
		cmd.Dir = p.dir
		cmd.Env = append(os.Environ(), p.env...)
		if os.Getenv("GOGC") == "" {
			cmd.Env = append(cmd.Env, rareCollection)
		}
		cmd.Stderr = os.Stderr
		// The processes that tests have started end in order, too.
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.WaitDelay = time.Minute
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		readErr := r.read(stdout)
		err = cmd.Wait()
		cost.took += time.Since(begin)
		cost.processor += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		if err != nil {
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				return fmt.Errorf("%s has failed (%w)", strings.Join(c, " "), err)
			}
			return err
		}
		if readErr != nil {
			return readErr
		}
	}
	return nil
}
