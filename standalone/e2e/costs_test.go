package e2e

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

var printCosts = flag.Bool("costs", false, "print the processor time of the processes that each test has started")

// costs adds up the processor time of the processes that tests start, by test.
var costs struct {
	mu sync.Mutex
	of map[string]spending
}

// spending is what processes have taken: control planes, and commands that run to their end.
type spending struct {
	planes, commands         time.Duration
	planeCount, commandCount int
}

// spent adds a process that has ended to what a test has spent.
func spent(test string, p *os.ProcessState, plane bool) {
	if p == nil {
		return // it was never started
	}
	test, _, _ = strings.Cut(test, "/")
	took := p.UserTime() + p.SystemTime()
	costs.mu.Lock()
	defer costs.mu.Unlock()
	if costs.of == nil {
		costs.of = map[string]spending{}
	}
	s := costs.of[test]
	if plane {
		s.planes, s.planeCount = s.planes+took, s.planeCount+1
	} else {
		s.commands, s.commandCount = s.commands+took, s.commandCount+1
	}
	costs.of[test] = s
}

// tellCosts prints what was added up, the dearest first.
func tellCosts() {
	costs.mu.Lock()
	defer costs.mu.Unlock()
	names := slices.SortedFunc(maps.Keys(costs.of), func(a, b string) int {
		return -cmp.Compare(costs.of[a].planes+costs.of[a].commands, costs.of[b].planes+costs.of[b].commands)
	})
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err == nil {
		fmt.Printf("%7.1f s of processor time: the tests themselves, with all simulators\n", time.Duration(own.Utime.Nano()+own.Stime.Nano()).Seconds())
	}
	for _, name := range names {
		s := costs.of[name]
		fmt.Printf("%7.1f s of processor time: %s (%d long processes %.1f s, %d commands %.1f s)\n",
			(s.planes + s.commands).Seconds(), name, s.planeCount, s.planes.Seconds(), s.commandCount, s.commands.Seconds())
	}
}
