package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/sqs"
	"github.com/nephele-io/nephele/internal/tier"
)

// TestEventsBringChanges tags a VM in the cloud and finds the policies enforced although the
// account is polled once a day, because its queue tells of the call. Without the queue the account
// goes on by polling and says so.
func TestEventsBringChanges(t *testing.T) {
	t.Parallel()
	tier.OnlyLong(t, "TestEventsAreFollowed (internal/cloud/inventory); TestDriftNamesItsAuthor has a queue read by the program")
	im := importAccount(t, newCluster(t), hybridCloud)
	policies := decodePolicies(t, policiesYAML)
	next := im.oracle.copy()
	next.policies = append(next.policies, policies[0])
	im.step("policy", next, func() { im.apply(policies[0]) })

	// No poll brings what events bring.
	account := &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "cloud", Name: "real"}}
	edit(t, im.c.client, account, func() { day := int32(86400); account.Spec.PollIntervalInSeconds = &day })
	vm := firstWithRole(hybridCloud, "app")
	region, _, _ := im.placeOf(vm)
	ref := sqs.Ref{Account: im.server.World().Accounts()[0].ID, Region: region, Name: sim.DefaultEventQueue}
	im.must(im.server.Queues().Create(ref, nil))
	patch := func(body string) {
		account := &cloudv1.CloudProviderAccount{}
		account.Namespace, account.Name = "cloud", "real"
		im.must(im.c.client.Patch(t.Context(), account, client.RawPatch("application/merge-patch+json", []byte(body))))
	}
	patch(fmt.Sprintf(`{"spec":{"awsConfig":{"eventQueue":[{"url":%q}]}}}`, im.server.URL()+ref.Path()))
	condition := func(want string) {
		t.Helper()
		eventually(t, "the condition "+want, func(ctx context.Context) (bool, string) {
			var account cloudv1.CloudProviderAccount
			if err := im.c.client.Get(ctx, client.ObjectKey{Namespace: "cloud", Name: "real"}, &account); err != nil {
				return false, err.Error()
			}
			c := meta.FindStatusCondition(account.Status.Conditions, cloudv1.ConditionEventsReceived)
			if c == nil {
				return false, "there is none"
			}
			return string(c.Status)+" "+c.Reason == want, fmt.Sprintf("%+v", *c)
		})
	}
	im.waitQueueRead(ref)
	api := im.ec2Client(region)
	tag := func(value string) func() {
		return func() {
			_, err := api.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{vm},
				Tags: []ec2types.Tag{{Key: aws.String("role"), Value: aws.String(value)}}})
			im.must(err)
		}
	}
	// The VM's role comes from its cloud tag from now on. The user's, which would win, goes when
	// that has arrived.
	tag("app")()
	eventually(t, "the cloud's tag on the VM", func(ctx context.Context) (bool, string) {
		live := im.virtualMachine(vm)
		err := im.c.client.Get(ctx, client.ObjectKeyFromObject(live), live)
		return err == nil && live.Status.Tags["role"] == "app", fmt.Sprint(live.Status.Tags, err)
	})
	im.must(im.c.client.Patch(t.Context(), im.virtualMachine(vm), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"tags":null}}`))))
	im.waitForRoles(hybridCloud.roles)
	for i, value := range []string{"db", "app", "db"} {
		im.step(fmt.Sprintf("tag %d", i), im.oracle.withRole(vm, value), tag(value))
	}
	condition("True OK")
	im.must(im.server.Queues().Delete(ref))
	condition("False QueueNotFound")
	im.must(im.server.Queues().Create(ref, nil))
	condition("True OK")
}

// waitQueueRead waits until somebody has taken a message from the queue.
func (im *imported) waitQueueRead(ref sqs.Ref) {
	im.t.Helper()
	_, err := im.server.Queues().Send(ref, "is anybody there?", 0)
	im.must(err)
	eventually(im.t, "the queue is read", func(context.Context) (bool, string) {
		visible, hidden, err := im.server.Queues().Depth(ref)
		return err == nil && visible+hidden == 0, fmt.Sprintf("%d and %d messages, %v", visible, hidden, err)
	})
}

func (im *imported) virtualMachine(name string) *cloudv1.VirtualMachine {
	vm := &cloudv1.VirtualMachine{}
	vm.Namespace, vm.Name = vmNamespace, name
	return vm
}
