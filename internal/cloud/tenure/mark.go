package tenure

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Mark is what an instance writes on every network that it claims, and into the record of its
// cluster.
type Mark struct {
	// Epoch names the process. It is random.
	Epoch string
	// Sequence rises while the process lives.
	Sequence uint64
	// Heartbeat is the longest time in which the sequence rises once, as far as the process can
	// bring that about.
	Heartbeat time.Duration
}

const (
	// LongestHeartbeat bounds what a mark can say, and with it how long anybody waits because of
	// it.
	LongestHeartbeat = 5 * time.Minute
	// longestEpoch bounds what counts as an epoch.
	longestEpoch = 64
)

// String is the mark as it is written: "EPOCH SEQUENCE HEARTBEAT".
func (m Mark) String() string {
	return fmt.Sprintf("%s %d %s", m.Epoch, m.Sequence, m.Heartbeat)
}

// ParseMark reads a mark. It is false for a text that is no mark, which belongs to no instance.
// Words after the third mean nothing, and a mark may lack its heartbeat.
func ParseMark(text string) (Mark, bool) {
	words := strings.Fields(text)
	if len(words) < 2 || !ValidEpoch(words[0]) {
		return Mark{}, false
	}
	m := Mark{Epoch: words[0]}
	var err error
	if m.Sequence, err = strconv.ParseUint(words[1], 10, 64); err != nil {
		return Mark{}, false
	}
	if len(words) > 2 {
		if d, err := time.ParseDuration(words[2]); err == nil && d > 0 {
			m.Heartbeat = min(d, LongestHeartbeat)
		}
	}
	return m, true
}

// ValidEpoch reports whether a text can be an epoch: letters and digits, and not too many.
func ValidEpoch(s string) bool {
	for _, r := range s {
		if (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			return false
		}
	}
	return s != "" && len(s) <= longestEpoch
}

// Rules are what an instance is and how it measures.
type Rules struct {
	// Epoch is that of this instance.
	Epoch string
	// Heartbeat is the longest time in which it moves its marks, and the longest for which it
	// trusts a reading.
	Heartbeat time.Duration
	// Pause is longer than it takes from reading that a network is free to a mark on it that
	// everybody sees.
	Pause time.Duration
}

// Beat is how often marks are to be moved. It is less than the heartbeat, so that a slow call does
// not make an instance look dead.
func (r Rules) Beat() time.Duration { return r.Heartbeat * 2 / 3 }

// longer is the heartbeat by which a mark is judged: its own or ours, whichever is longer.
func (r Rules) longer(m Mark) time.Duration { return max(r.Heartbeat, m.Heartbeat) }
