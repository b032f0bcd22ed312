package controller

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/realize"
)

// TestYields: a region that another member of the set works on is left alone and says why, unless
// the account is given back.
func TestYields(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(cloudv1.AddToScheme(scheme), setv1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	account := &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a"}}
	account.Spec.AWSConfig, account.Status.CloudAccountID = &cloudv1.CloudProviderAccountAWSConfig{}, "111122223333"
	membership := &setv1alpha1.Membership{ObjectMeta: metav1.ObjectMeta{Name: setv1alpha1.MembershipName}}
	membership.Status.TakenAccounts = []setv1alpha1.TakenAccount{{Region: "aws/111122223333/eu-west-1", By: "east"}, {Region: "aws/999/eu-west-2", By: "east"}, {Region: "azure/111122223333/eu-west-2", By: "east"}}
	y := &yields{Reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(account, membership).Build(), there: true}
	fresh := func() *realize.Account {
		return &realize.Account{Key: "n/a", Regions: []string{"eu-west-1", "eu-west-2"}, Snapshots: map[string]*cloud.Snapshot{"eu-west-1": {}, "eu-west-2": {}}}
	}
	a := fresh()
	if y.apply(a); a.Snapshots["eu-west-1"] != nil || a.Snapshots["eu-west-2"] == nil || len(a.Unread) != 1 {
		t.Errorf("%+v", a)
	}
	if err := a.Unread["eu-west-1"]; err == nil || !strings.Contains(err.Error(), "left to cluster east") {
		t.Error(err)
	}
	a = fresh()
	a.Releasing = true
	if y.apply(a); len(a.Snapshots) != 2 {
		t.Error("a region of an account that is given back is left alone")
	}
	a, y.there = fresh(), false
	if y.apply(a); len(a.Snapshots) != 2 {
		t.Error("a cluster that can be no member leaves a region alone")
	}
}
