package aws_test

import (
	"os"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/sim/iam"
)

// TestNameIsOnlyForPeople: a group gets its tag Name by the call that creates it, with the
// published rights; where rights list the keys of tags and lack this one, it is created without it.
func TestNameIsOnlyForPeople(t *testing.T) {
	t.Parallel()
	published, err := os.ReadFile(rightsFolder + "enforce.json")
	if err != nil {
		t.Fatal(err)
	}
	listing := strings.Replace(string(published), `"ec2:CreateAction": "CreateSecurityGroup"
        }`, `"ec2:CreateAction": "CreateSecurityGroup"
        },
        "ForAllValues:StringLike": {
          "aws:TagKeys": "nephele.io/*"
        }`, 1)
	if listing == string(published) {
		t.Fatal("the statement about tags of new groups is not as this test knows it")
	}
	for document, want := range map[string]string{string(published): "nephele: shop/db", listing: ""} {
		policy, err := iam.Parse([]byte(document))
		if err != nil {
			t.Fatal(err)
		}
		l := newLabWithRights(t, policy)
		op := ourGroup("named")
		op.Group.Tags[cloud.TagName] = "nephele: shop/db"
		before := l.server.Journal().Total()
		id := l.must(op)
		creations := 0
		for _, c := range l.server.Journal().Calls(before) {
			if c.Action == "CreateSecurityGroup" {
				creations++
			}
			if c.Action == "CreateTags" {
				t.Error("a call for the tag alone")
			}
		}
		if wantCalls := map[bool]int{true: 1, false: 2}[want != ""]; creations != wantCalls {
			t.Errorf("%d calls to create, want %d", creations, wantCalls)
		}
		groups, err := l.region().SecurityGroups(id)
		if err != nil || groups[0].Tags[cloud.TagName] != want || groups[0].Tags[cloud.TagCluster] != "c" {
			t.Errorf("%v: %+v, want the name %q", err, groups, want)
		}
	}
}
