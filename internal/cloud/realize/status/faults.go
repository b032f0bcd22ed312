package status

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

// faultCondition is what a report says of faults of the program; nil if there is none.
func faultCondition(r Report) *metav1.Condition {
	c := metav1.Condition{Type: cloudv1.ConditionFaulty, Status: metav1.ConditionTrue}
	switch {
	case recovered.StackOf(r.Err) != "" || errors.Is(r.Err, ErrStalled):
		c.Reason, c.Message = cloudv1.ReasonNotRealized, cloud.FailureText(r.Err)
	case r.Result != nil && len(r.Result.Faults) > 0:
		var parts []string
		for _, f := range r.Result.Faults[:min(len(r.Result.Faults), maxTold)] {
			parts = append(parts, leftOut(r.Result, f))
		}
		if more := len(r.Result.Faults) - maxTold; more > 0 {
			parts = append(parts, fmt.Sprintf("and %d more", more))
		}
		c.Reason, c.Message = cloudv1.ReasonPartlyRealized, strings.Join(parts, "; ")
	default:
		return nil
	}
	return &c
}

// leftOut says what is left as it is because of a fault, and what that says.
func leftOut(res *plan.Result, f plan.Fault) string {
	what := "the region " + f.Region
	switch {
	case f.Policy != "":
		what = "the policy " + f.Policy
		for _, p := range res.Policies {
			if p.UID == f.Policy {
				what = strings.TrimSpace(fmt.Sprintf("%s %s", p.Kind, strings.TrimPrefix(p.Namespace+"/"+p.Name, "/")))
			}
		}
	case f.Interface != "":
		what = "the interface " + f.Interface + " in " + f.Region
	}
	return what + " is left as it is, because planning with it panics: " + f.Text
}

// writeFaults brings it to the account.
func (s *Writer) writeFaults(ctx context.Context, a *accountStatus, r Report) error {
	cond, text := faultCondition(r), nothing
	if cond != nil {
		text = cond.Reason + " " + cond.Message
	}
	if a.told.faults == text {
		return nil
	}
	account, err := s.setCondition(ctx, r.Account, cloudv1.ConditionFaulty, cond)
	if err != nil {
		return err
	}
	if cond != nil && account != nil {
		s.Events.Eventf(account, nil, corev1.EventTypeWarning, cloudv1.ConditionFaulty, "Realize", "%s", note(cond.Message))
	}
	a.told.faults = text
	return nil
}

// ErrStalled is what an error wraps that says that the work on an account does not come on.
var ErrStalled = errors.New("a fault of Nephele, please report it; a restart begins it anew")
