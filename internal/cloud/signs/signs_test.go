package signs

import (
	"os"
	"strings"
	"testing"
)

func TestNameTag(t *testing.T) {
	for _, c := range []struct {
		policies []string
		want     string
	}{
		{nil, "nephele"},
		{[]string{"shop/db-from-app"}, "nephele: shop/db-from-app"},
		{[]string{"shop/web", "shop/db-from-app", "closed", "shop/web", "shop/zoo"}, "nephele: closed +3"},
		{[]string{strings.Repeat("n", 63) + "/" + strings.Repeat("p", 253), "z"}, "nephele: " + strings.Repeat("n", 63) + "/" + strings.Repeat("p", 177) + "... +1"},
	} {
		if got := NameTag(c.policies); got != c.want || len(got) > maxTag {
			t.Errorf("%d characters %q, want %q", len(got), got, c.want)
		}
	}
}

// TestDescription: every description is one that AWS accepts, and known as ours again; what
// somebody else writes is not.
func TestDescription(t *testing.T) {
	for _, c := range []struct {
		policy, rule string
		more         int
		want         string
	}{
		{"", "", 0, "nephele"},
		{"shop/db-from-app", "app", 0, "nephele: shop/db-from-app app"},
		{"shop/db-from-app", "", 2, "nephele: shop/db-from-app +2"},
		{"shop/db", "näme <b>", 0, "nephele: shop/db n_me _b_"},
		{strings.Repeat("p", 400), "r", 12, "nephele: " + strings.Repeat("p", 239) + "... +12"},
	} {
		got := Description(c.policy, c.rule, c.more)
		if got != c.want || len(got) > maxDescription || !Ours(got) {
			t.Errorf("%d characters %q, want %q", len(got), got, c.want)
		}
	}
	for _, foreign := range []string{"", "nephele-like", "by hand", "Nephele: x"} {
		if Ours(foreign) {
			t.Errorf("%q is taken for ours", foreign)
		}
	}
}

// TestAdviceNamesTheQuota: the codes are those that the API's documentation names with the fields.
func TestAdviceNamesTheQuota(t *testing.T) {
	source, err := os.ReadFile("../../../api/cloud/v1alpha1/account.go")
	if err != nil {
		t.Fatal(err)
	}
	for field, q := range quotas {
		got := Advice(field, 73)
		if !strings.Contains(got, q.code) || !strings.Contains(got, "to 73 or more") ||
			!strings.HasSuffix(got, "spec.awsConfig.quotas."+field+" of the CloudProviderAccount with it") {
			t.Errorf("%s: %s", field, got)
		}
		if !strings.Contains(string(source), `is "`+q.name+`" (`+q.code+`)`) || !strings.Contains(string(source), `json:"`+field+`,omitempty"`) {
			t.Errorf("the API does not say that %s is %q (%s)", field, q.name, q.code)
		}
	}
	if got := Advice("applicationSecurityGroups", 4000); strings.Contains(got, "Service Quotas") || !strings.Contains(got, "to 4000 or more, and then spec.azureConfig.quotas") {
		t.Error(got)
	}
	if got := Advice("sourcePrefixesPerNetworkSecurityGroup", 1); got != "" {
		t.Errorf("%q", got)
	}
	if got := Advice("tags", 1); got != "" {
		t.Errorf("%q", got)
	}
	if got := Advice("rulesPerGroup", 0); strings.Contains(got, " to 0") {
		t.Errorf("%q", got)
	}
}
