package status

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/render"
)

// recordsCondition is what a report says of the records of former groups; nil if there is nothing
// to say.
func recordsCondition(r Report) *metav1.Condition {
	c := metav1.Condition{Type: cloudv1.ConditionRecordsSigned, Status: metav1.ConditionFalse}
	records := r.Result.Records
	switch {
	case len(records.Unproven) > 0:
		c.Reason = cloudv1.ReasonNotBelieved
		var parts []string
		for _, u := range records.Unproven[:min(len(records.Unproven), maxTold)] {
			// A user that confirms what it had before needs the whole id.
			who := u.Region + " " + u.Interface
			if name := r.Seen[u.Region].Called(u.Interface); name != cloud.ShortIDs(u.Interface) {
				who += " of " + name
			}
			parts = append(parts, who+": "+u.Message)
		}
		if more := cloud.AndMore(len(records.Unproven)-maxTold, render.SeeAll); more != "" {
			parts = append(parts, more)
		}
		c.Message = strings.Join(parts, "; ")
		if r.ConfirmedProblem != "" {
			c.Message += "; the annotation cannot be read: " + r.ConfirmedProblem
		}
	case r.NotSigned:
		c.Reason = cloudv1.ReasonNotPermitted
		c.Message = "records of former groups are neither signed nor checked, because the account's rights do not allow the tag " + cloud.TagSignature
	case records.Unsigned > 0:
		c.Reason = cloudv1.ReasonUnsigned
		c.Message = cloud.Counted(records.Unsigned, "record") + " of former groups not signed, and believed, for they may be older than the key"
	case records.Signed > 0:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, cloudv1.ReasonOK, "all records of former groups are signed"
	default:
		return nil
	}
	return &c
}

// vmRecordsCondition is what is to be said of one VM; nil if nothing is.
func vmRecordsCondition(vm plan.VMStatus) *metav1.Condition {
	for _, n := range vm.Interfaces {
		if n.Unproven != "" {
			return &metav1.Condition{Type: cloudv1.ConditionRecordsSigned, Status: metav1.ConditionFalse, Reason: cloudv1.ReasonNotBelieved,
				Message: n.ID + ": " + n.Unproven}
		}
	}
	return nil
}

// writeRecords brings it to the account.
func (s *Writer) writeRecords(ctx context.Context, a *accountStatus, r Report) error {
	cond, text := recordsCondition(r), nothing
	if cond != nil {
		text = cond.Reason + " " + cond.Message
	}
	if a.told.records == text {
		return nil
	}
	if _, err := s.setCondition(ctx, r.Account, cloudv1.ConditionRecordsSigned, cond); err != nil {
		return err
	}
	a.told.records = text
	return nil
}
