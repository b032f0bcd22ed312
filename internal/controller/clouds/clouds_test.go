package clouds

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/accountspec"
	"github.com/nephele-io/nephele/internal/cloud/selection"
	"github.com/nephele-io/nephele/internal/preview"
)

// oneAccount is a knowledge of an account of a cloud.
type oneAccount struct{ kind cloudv1.CloudProvider }

func (oneAccount) Keys() []string                                                { return []string{"n/a"} }
func (oneAccount) Regions(string) []string                                       { return nil }
func (oneAccount) Latest(string, string) (*cloud.Snapshot, error)                { return nil, nil }
func (oneAccount) Deleting(string) bool                                          { return false }
func (oneAccount) Entities(string) map[types.NamespacedName]selection.VMRef      { return nil }
func (oneAccount) Services(string) map[types.NamespacedName]selection.ServiceRef { return nil }
func (a oneAccount) Settings(string) accountspec.Settings                        { return accountspec.Settings{Cloud: a.kind} }

// TestClouds: every row is whole, and what an account names decides which row counts.
func TestClouds(t *testing.T) {
	seen := map[cloudv1.CloudProvider]bool{}
	for _, c := range Table() {
		if c.Kind == "" || c.Lowerer == nil || c.Open == nil || seen[c.Kind] {
			t.Errorf("%+v", c)
		}
		seen[c.Kind] = true
		if got := preview.Describe(oneAccount{c.Kind}, "n/a", LowererOf).Lowerer; got != c.Lowerer {
			t.Errorf("an account of %s gets the lowerer %T", c.Kind, got)
		}
	}
	if _, supported := Of("Elsewhere"); supported || preview.Describe(oneAccount{"Elsewhere"}, "n/a", LowererOf).Lowerer != nil {
		t.Error("a cloud that nobody has heard of is supported")
	}
}

// TestAnotherCloud: a second cloud is one more row.
func TestAnotherCloud(t *testing.T) {
	asked := errors.New("asked")
	table := append(Table(), Cloud{
		Kind: "Elsewhere",
		Open: func(_ context.Context, p Parts) (accountspec.Open, error) {
			return func(c accountspec.Config) (cloud.Provider, error) { return nil, asked }, nil
		},
		ExternalID: func(cluster, account string) string { return cluster + " " + account },
	})
	opens, err := Open(t.Context(), table, Parts{Cluster: "c"})
	if err != nil || len(opens) != len(table) {
		t.Fatalf("%v, %d clouds", err, len(opens))
	}
	if _, err := opens["Elsewhere"](accountspec.Config{}); !errors.Is(err, asked) {
		t.Error(err)
	}
	if got := ExternalIDs(table, "c")(accountspec.Config{Cloud: "Elsewhere", Account: "n/a"}); got != "c n/a" {
		t.Error(got)
	}
}
