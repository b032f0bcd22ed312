package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/sim"
	simaws "github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/sqs"
)

// TestDriftNamesItsAuthor: another user of the account takes a VM out of our group. That is
// repaired, and account and event name the author. What somebody writes over the status of the VM
// is put right as well.
func TestDriftNamesItsAuthor(t *testing.T) {
	t.Parallel()
	im := importAccount(t, pooledCluster(t), hybridCloud)
	vm := firstWithRole(hybridCloud, "db")
	region, _, native := im.placeOf(vm)
	owner := im.server.World().Accounts()[0].ID
	ref := sqs.Ref{Account: owner, Region: region, Name: sim.DefaultEventQueue}
	im.must(im.server.Queues().Create(ref, nil))
	account := &cloudv1.CloudProviderAccount{}
	account.Namespace, account.Name = "cloud", "real"
	im.must(im.c.client.Patch(t.Context(), account, client.RawPatch("application/merge-patch+json",
		fmt.Appendf(nil, `{"spec":{"awsConfig":{"eventQueue":[{"url":%q}]}}}`, im.server.URL()+ref.Path()))))
	im.waitQueueRead(ref)
	policies := decodePolicies(t, policiesYAML)
	next := im.oracle.copy()
	next.policies = append(next.policies, policies[0])
	im.step("policy", next, func() { im.apply(policies[0]) })
	im.waitRealized(vm)

	mallory := simaws.Credential{AccessKeyID: "AKIAMALLORYMALLORY00", Secret: "mallory's own", Account: owner, User: "mallory"}
	im.must(im.server.World().AddCredential(mallory))
	api := ec2.New(ec2.Options{Region: region, BaseEndpoint: aws.String(im.server.URL()),
		Credentials: credentials.NewStaticCredentialsProvider(mallory.AccessKeyID, mallory.Secret, "")})
	_, err := api.ModifyNetworkInterfaceAttribute(t.Context(), &ec2.ModifyNetworkInterfaceAttributeInput{
		NetworkInterfaceId: aws.String(im.firstInterface(vm)), Groups: native})
	im.must(err)
	by := "by arn:aws:iam::" + owner + ":user/mallory (ModifyNetworkInterfaceAttribute at "
	eventually(t, "the account names the author", func(ctx context.Context) (bool, string) {
		if err := im.c.client.Get(ctx, client.ObjectKeyFromObject(account), account); err != nil {
			return false, err.Error()
		}
		c := meta.FindStatusCondition(account.Status.Conditions, cloudv1.ConditionDrift)
		return c != nil && c.Reason == cloudv1.ReasonRepaired && strings.Contains(c.Message, by), fmt.Sprintf("%+v", c)
	})
	eventually(t, "an event names the author", func(ctx context.Context) (bool, string) {
		var list eventsv1.EventList
		if err := im.c.client.List(ctx, &list, client.InNamespace("cloud")); err != nil {
			return false, err.Error()
		}
		notes := ""
		for _, e := range list.Items {
			if e.Reason == "DriftRepaired" && strings.Contains(e.Note, by) {
				return true, ""
			}
			notes += e.Reason + ": " + e.Note + "\n"
		}
		return false, notes
	})

	im.guard.takeViolations() // what mallory did opened flows
	want, err := im.oracle.expect(im.server.World().State(), im.flows)
	im.must(err)
	im.settle("repaired", want)

	live := im.virtualMachine(vm)
	im.must(im.c.client.Get(t.Context(), client.ObjectKeyFromObject(live), live))
	right := live.Status
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"policies":null,"policySummary":"9/9"}}`))
	im.must(im.c.client.Status().Patch(t.Context(), im.virtualMachine(vm), patch))
	eventually(t, "the status is put right", func(ctx context.Context) (bool, string) {
		if err := im.c.client.Get(ctx, client.ObjectKeyFromObject(live), live); err != nil {
			return false, err.Error()
		}
		return live.Status.PolicySummary == right.PolicySummary && len(live.Status.Policies) == len(right.Policies), fmt.Sprintf("%+v", live.Status)
	})
}

// waitRealized waits until all policies of a VM are realized.
func (im *imported) waitRealized(vm string) {
	im.t.Helper()
	live := im.virtualMachine(vm)
	eventually(im.t, vm+" is realized", func(ctx context.Context) (bool, string) {
		if err := im.c.client.Get(ctx, client.ObjectKeyFromObject(live), live); err != nil {
			return false, err.Error()
		}
		c := meta.FindStatusCondition(live.Status.Conditions, cloudv1.ConditionRealized)
		return c != nil && c.Reason == cloudv1.ReasonOK && len(live.Status.Policies) > 0, fmt.Sprintf("%+v", live.Status)
	})
}

// firstInterface is the primary interface of a VM.
func (im *imported) firstInterface(vm string) string {
	for _, r := range im.server.World().State().Regions {
		for _, n := range r.NetworkInterfaces {
			if n.Attachment != nil && n.Attachment.InstanceID == vm && n.Attachment.DeviceIndex == 0 {
				return n.ID
			}
		}
	}
	im.t.Fatalf("%s has no interface", vm)
	return ""
}
