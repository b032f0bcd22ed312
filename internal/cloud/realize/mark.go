package realize

import (
	"errors"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// errUnmarked ends a plan in which the cloud refused the tag that names the policies in force. The
// next one goes without.
var errUnmarked = &cloud.Error{Class: cloud.Conflict, Err: errors.New("the cloud refuses the tag " + cloud.TagRevision + ", which is left out now")}

// marks reports whether a step writes or removes the tag that names the policies in force, and
// nothing else.
func marks(step plan.Step) bool {
	if step.Op.Target != step.Network || len(step.Op.Tags) != 1 {
		return false
	}
	for key := range step.Op.Tags {
		return strings.HasPrefix(key, cloud.TagRevision)
	}
	return false
}

// withoutMark deals with a refused tag that names the policies in force, such as by rights that are
// older than the tag. It only saves edits, so everything goes on without it, and it is tried again
// after a pause that grows.
func (e *execution) withoutMark(step plan.Step, err error) error {
	if !marks(step) || !refuses(err) {
		return err
	}
	e.w.r.Log.Info("The cloud refuses a tag that saves edits of interfaces where many labels change; policies are enforced without it",
		"account", e.w.key, "region", step.Scope.Region, "network", step.Network, "tag", cloud.TagRevision, "error", err.Error())
	e.w.unmarkable.add(plan.InterfaceKey{Region: step.Scope.Region, ID: step.Network}, cloud.FailureText(err), "", e.w.r.Clock.Now(), longestBlock)
	return errUnmarked
}

// networks are those that are left out.
func networks(refused map[plan.InterfaceKey]string) map[plan.NetworkKey]bool {
	if len(refused) == 0 {
		return nil
	}
	out := map[plan.NetworkKey]bool{}
	for key := range refused {
		out[plan.NetworkKey(key)] = true
	}
	return out
}

// sooner returns the shorter one of two times to wait, where 0 means never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
