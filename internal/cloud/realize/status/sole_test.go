package status

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/realize/instance"
	"github.com/nephele-io/nephele/internal/cloud/tenure"
)

// TestSoleWriterStatus: what the account says of other instances, and the annotation that is used
// up.
func TestSoleWriterStatus(t *testing.T) {
	t.Parallel()
	refuse := false
	d := newDesk(t, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
		if refuse {
			return errors.New("no patch today")
		}
		return c.Patch(ctx, o, p, opts...)
	}})
	account := func() *cloudv1.CloudProviderAccount {
		var a cloudv1.CloudProviderAccount
		if err := d.client.Get(t.Context(), client.ObjectKey{Namespace: labNamespace, Name: "shop"}, &a); err != nil {
			t.Fatal(err)
		}
		return &a
	}
	annotate := func(value string) {
		a := account()
		a.Annotations = map[string]string{cloudv1.AnnotationTakeOver: value, "other": "stays"}
		if err := d.client.Update(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	const place = " (tag nephele.io/instance of vpc-1 in eu-west-1)"
	stopped := func(other, asked string) instance.Sole {
		return instance.Sole{State: tenure.Stopped, Present: true, Epoch: "us", Other: other, Region: home, Network: "vpc-1", Asked: asked}
	}
	for _, c := range []struct {
		name, annotation string
		is               instance.Sole
		condition        string
		events           []string
	}{
		{"nobody looks", "", instance.Sole{}, "", nil},
		{"nothing is claimed", "", instance.Sole{State: tenure.Sole, Epoch: "us"}, "", nil},
		{"the last one may live", "", instance.Sole{State: tenure.Waiting, Present: true, Epoch: "us", Other: "past", Region: home, Network: "vpc-1"},
			"Unknown Pending the instance past may still be at work" + place, nil},
		{"alone", "", instance.Sole{State: tenure.Sole, Present: true, Epoch: "us"}, "True OK this instance, us, is the only one that writes", nil},
		{"another one", "", stopped("else", ""), "False AnotherInstance another instance of this controller with the same cluster id, else, writes to this account" + place,
			[]string{"Warning AnotherInstance another instance"}},
		{"still", "", stopped("else", ""), "False AnotherInstance another instance", nil},
		{"it has begun again", "", stopped("else2", ""), "False AnotherInstance another instance of this controller with the same cluster id, else2,", []string{"Warning AnotherInstance another instance"}},
		{"told something else", "else", stopped("else2", "else"), "False AnotherInstance another instance", []string{}},
		{"taking over", "else2", instance.Sole{State: tenure.Sole, Present: true, Epoch: "us", Asked: "else2"}, "True OK this instance, us,", []string{"Normal TookOver this instance, us,"}},
		{"asked for nothing", "yesterday", instance.Sole{State: tenure.Sole, Present: true, Epoch: "us", Asked: "yesterday"}, "True OK", nil},
		{"the other one is gone", "", instance.Sole{State: tenure.Sole, Present: true, Epoch: "us", Succeeded: "past"},
			"True OK this instance, us, is the only one that writes; it has taken over from past", []string{"Normal TookOver this instance, us,"}},
		{"it cannot be marked", "", instance.Sole{State: tenure.Sole, Present: true, Epoch: "us", Succeeded: "past", Unmarked: true}, "Unknown NotMarked the cloud does not let this instance mark", nil},
		{"given back", "", instance.Sole{State: tenure.Sole, Epoch: "us", Succeeded: "past"}, "", nil},
	} {
		if c.annotation != "" {
			annotate(c.annotation)
		}
		r := reportOf(nil, nil)
		r.Sole = c.is
		d.write(r)
		a := account()
		got := ""
		if cond := meta.FindStatusCondition(a.Status.Conditions, cloudv1.ConditionSoleWriter); cond != nil {
			got = string(cond.Status) + " " + cond.Reason + " " + cond.Message
		}
		if (got == "") != (c.condition == "") || !strings.HasPrefix(got, c.condition) {
			t.Errorf("%s: %s, want %s", c.name, got, c.condition)
		}
		if a.Status.OtherInstance != stoppedBy(c.is) {
			t.Errorf("%s: status.otherInstance %q", c.name, a.Status.OtherInstance)
		}
		if kept := a.Annotations[cloudv1.AnnotationTakeOver] != ""; kept != (c.annotation != "" && c.is.State == tenure.Stopped) ||
			c.annotation != "" && a.Annotations["other"] == "" {
			t.Errorf("%s: annotations %v", c.name, a.Annotations)
		}
		var events []string
		for i, e := range d.events() {
			if i < len(c.events) && strings.HasPrefix(e, c.events[i]) {
				e = c.events[i]
			}
			events = append(events, e)
		}
		if !slices.Equal(events, c.events) {
			t.Errorf("%s: events %q, want %q", c.name, events, c.events)
		}
	}
	const want = "nephele take-over vms/shop (it is told to take over from older, which is not the one that writes)"
	if cond := stopped("else", "older").Text(labAccount); !strings.HasSuffix(cond, want) {
		t.Error(cond)
	}

	// An annotation that could not be removed is removed the next time, also if nothing else is
	// new.
	annotate("else")
	refuse = true
	r := reportOf(nil, nil)
	r.Sole = instance.Sole{State: tenure.Sole, Present: true, Epoch: "us", Asked: "else"}
	if _, err := d.writer.write(t.Context(), d.writer.of(r.Account), r); err == nil || account().Annotations[cloudv1.AnnotationTakeOver] == "" {
		t.Errorf("error %v, annotations %v", err, account().Annotations)
	}
	refuse = false
	d.write(r)
	if got := account().Annotations[cloudv1.AnnotationTakeOver]; got != "" {
		t.Errorf("the annotation %q stays", got)
	}
}
