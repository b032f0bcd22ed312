package controller

import (
	"strings"
	"testing"
	"time"
)

func TestInstanceBounds(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{-1, time.Millisecond, time.Hour} {
		for flag, o := range map[string]InstanceOptions{"--instance-heartbeat": {Heartbeat: d}, "--instance-claim-pause": {ClaimPause: d}} {
			if _, _, err := o.instance(nil, newEpoch()); err == nil || !strings.Contains(err.Error(), flag) {
				t.Errorf("%s: %s: %v", flag, d, err)
			}
		}
	}
}
