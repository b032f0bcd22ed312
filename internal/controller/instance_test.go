package controller

import (
	"strings"
	"testing"
	"time"
)

func TestHeartbeatBounds(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{-1, time.Millisecond, time.Hour} {
		if _, err := (InstanceOptions{Heartbeat: d}).instance(nil, newEpoch()); err == nil || !strings.Contains(err.Error(), "--instance-heartbeat") {
			t.Errorf("%s: %v", d, err)
		}
	}
}
