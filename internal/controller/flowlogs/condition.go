package flowlogs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/flowlog"
	"github.com/nephele-io/nephele/internal/flows/collect"
)

// maxMessage bounds the message of the condition: the API takes 32 KiB.
const maxMessage = 4000

// result is how it went with a place in this round.
type result struct {
	place
	err     error
	there   int64
	missing []collect.Lacking
	ahead   time.Duration
}

func (f *Reader) result(p place, err error) result {
	out := result{place: p, err: err}
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.places[p]; c != nil {
		out.there, out.missing, out.ahead = c.counts.There, c.Lacking(), c.Ahead()
	}
	return out
}

// show brings the condition FlowLogsRead to an account. An account that nothing is known of yet
// keeps the one that it has.
func (f *Reader) show(ctx context.Context, a *cloudv1.CloudProviderAccount, looked []result) error {
	names := a.Spec.AWSConfig != nil && len(a.Spec.AWSConfig.FlowLogs) > 0 || a.Spec.AzureConfig != nil && len(a.Spec.AzureConfig.FlowLogs) > 0
	if names && len(looked) == 0 || !a.DeletionTimestamp.IsZero() {
		return nil
	}
	want := conditionOf(looked)
	now := meta.FindStatusCondition(a.Status.Conditions, cloudv1.ConditionFlowLogsRead)
	if want == nil && now == nil || want != nil && now != nil && sameCondition(want, now) {
		return nil
	}
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		var live cloudv1.CloudProviderAccount
		if err := f.accounts.Get(ctx, client.ObjectKeyFromObject(a), &live); err != nil {
			return err
		}
		if want == nil {
			if !meta.RemoveStatusCondition(&live.Status.Conditions, cloudv1.ConditionFlowLogsRead) {
				return nil
			}
		} else {
			c := *want
			c.ObservedGeneration, c.LastTransitionTime = live.Generation, metav1.NewTime(f.clock.Now())
			if !meta.SetStatusCondition(&live.Status.Conditions, c) {
				return nil
			}
		}
		return f.accounts.Status().Update(ctx, &live)
	})
	if err = client.IgnoreNotFound(err); err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("condition %s of account %s/%s: %w", cloudv1.ConditionFlowLogsRead, a.Namespace, a.Name, err)
	}
	return nil // what conflicts is tried in the next round
}

func sameCondition(a, b *metav1.Condition) bool {
	return a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
}

// conditionOf says how it went; nil without places.
func conditionOf(looked []result) *metav1.Condition {
	if len(looked) == 0 {
		return nil
	}
	c := &metav1.Condition{Type: cloudv1.ConditionFlowLogsRead, Status: metav1.ConditionTrue, Reason: cloudv1.ReasonOK}
	var wrong, good []string
	worst := 0
	add := func(rank int, status metav1.ConditionStatus, reason, text string) {
		if rank > worst {
			worst, c.Status, c.Reason = rank, status, reason
		}
		wrong = append(wrong, text)
	}
	for i := range looked {
		l := &looked[i]
		at := "bucket " + l.bucket
		if l.azure {
			at = "container " + l.bucket
		}
		switch {
		case l.err == errNotYet:
			add(1, metav1.ConditionUnknown, cloudv1.ReasonPending, at+": "+l.err.Error())
			continue
		case l.err != nil:
			add(4, metav1.ConditionFalse, reasonOf(l.err), fmt.Sprintf("%s: %v", at, l.err))
			continue
		case l.there == 0:
			add(3, metav1.ConditionFalse, cloudv1.ReasonNoFiles, fmt.Sprintf("%s: no recent file of a flow log of %s is there; one that writes there is made with: %s", at, l.owner, l.command()))
			continue
		}
		for _, missing := range l.missing {
			words := "lacks " + strings.Join(missing.Fields, "; ")
			if missing.Useless {
				words += ", so it tells nothing"
			}
			add(2, metav1.ConditionFalse, cloudv1.ReasonFieldsMissing, fmt.Sprintf("%s: flow log %.100s %s. A flow log cannot be changed; make another one: %s", at, missing.Log, words, l.command()))
		}
		if l.ahead != 0 {
			at += fmt.Sprintf(" (the clock there is %s ahead of the controller's; flows have the times of the controller's)", l.ahead)
		}
		good = append(good, at)
	}
	if c.Message = strings.Join(wrong, "\n"); len(wrong) == 0 {
		c.Message = strings.Join(good, ", ") + " is read"
	}
	if len(c.Message) > maxMessage {
		c.Message = strings.ToValidUTF8(c.Message[:maxMessage], "") + "..."
	}
	return c
}

// reasonOf is the reason for a bucket that cannot be read.
func reasonOf(err error) string {
	var answer *cloud.Error
	if errors.As(err, &answer) && (answer.Code == "NoSuchBucket" || answer.Code == "ContainerNotFound") {
		return cloudv1.ReasonBucketNotFound
	}
	switch cloud.ClassOf(err) {
	case cloud.Auth:
		return cloudv1.ReasonAuthFailed
	case cloud.NotFound:
		return cloudv1.ReasonBucketNotFound
	case cloud.Throttled:
		return cloudv1.ReasonThrottled
	}
	return cloudv1.ReasonUnreachable
}

// command makes a flow log that writes there with all fields.
func (p *place) command() string {
	if p.azure {
		return "az network watcher flow-log create --location REGION --name NAME --vnet VNET --storage-account ACCOUNT"
	}
	where := p.bucket
	if prefix := strings.Trim(p.prefix, "/"); prefix != "" {
		where += "/" + prefix
	}
	region := cmp.Or(p.region, p.regions)
	region, _, _ = strings.Cut(region, " ")
	return fmt.Sprintf("aws ec2 create-flow-logs --region %s --resource-type VPC --resource-ids VPC --traffic-type ALL --max-aggregation-interval 60 "+
		"--log-destination-type s3 --log-destination arn:aws:s3:::%s --log-format '%s'", region, where, flowlog.Format())
}
