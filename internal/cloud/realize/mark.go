package realize

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// errUnmarked ends a plan in which the cloud refused the tag that names the policies in force. The next
// one goes without.
var errUnmarked = &cloud.Error{Class: cloud.Conflict, Err: errors.New("the cloud refuses the tag " + cloud.TagRevision + ", which is left out now")}

// unmarked deals with a refused tag that names the policies in force, such as by rights that are older
// than the tag. It only saves edits, so everything goes on without it until the next start.
func (e *execution) unmarked(step plan.Step, err error) error {
	if step.Op.Target != step.Network || len(step.Op.Tags) != 1 || !refuses(err) {
		return err
	}
	for key := range step.Op.Tags {
		if !strings.HasPrefix(key, cloud.TagRevision) {
			return err
		}
	}
	if !e.unmarkable.Swap(true) {
		e.r.Log.Info("The cloud refuses a tag that saves edits of interfaces where many labels change; policies are enforced without it",
			"account", e.key, "network", step.Network, "tag", cloud.TagRevision, "error", err.Error())
	}
	return fmt.Errorf("%s: %w", step.Network, errUnmarked)
}
