package realize

import (
	"cmp"
	"regexp"
	"strings"
	"sync/atomic"

	"github.com/nephele-io/nephele/internal/sim/ec2"
)

// fault disturbs calls of the realizer, not of the inventory.
func (l *lab) fault(f ec2.Fault) int {
	f.Match = func(ec2.Call) bool { return !l.accounts.reading.Load() }
	f.Action = cmp.Or(f.Action, "*")
	return l.server.Faults().Add(f)
}

// mutations counts the calls of the journal that change something.
func (l *lab) mutations() int {
	n := 0
	for _, c := range l.server.Journal().Calls(0) {
		if mutating(c) {
			n++
		}
	}
	return n
}

func mutating(c ec2.Call) bool {
	return !strings.HasPrefix(c.Action, "Describe") && !strings.HasPrefix(c.Action, "Get") && !strings.HasPrefix(c.Action, "List")
}

// disturbed reports whether a call is one of the realizer that may be disturbed.
func (l *lab) disturbed(c ec2.Call) bool {
	return !l.accounts.reading.Load() && regexp.MustCompile(*faultCalls).MatchString(c.Action)
}

// count returns a function that tells how many calls the realizer has made since that may be
// disturbed.
func (l *lab) count() func() int {
	var n atomic.Int32
	l.server.Faults().Add(ec2.Fault{Action: "*", Times: -1, Match: func(c ec2.Call) bool {
		if l.disturbed(c) {
			n.Add(1)
		}
		return false
	}})
	return func() int { return int(n.Load()) }
}
