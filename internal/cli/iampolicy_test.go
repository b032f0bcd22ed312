package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestIAMPolicy: the command prints the published policies without pins, and what it is told with
// them; every flag that cannot be is refused.
func TestIAMPolicy(t *testing.T) {
	for mode, published := range map[string]string{"enforce": "../../config/aws/enforce.json", "plan": "../../config/aws/plan.json"} {
		want, err := os.ReadFile(published)
		if err != nil {
			t.Fatal(err)
		}
		r := nephele(t, "", "iam-policy", "--mode", mode)
		if r.code != ExitDone || r.stdout != string(want) || strings.Contains(r.err, "--cluster ID narrows it") != (mode == "enforce") {
			t.Errorf("%s: exit %d, %s\n%s", mode, r.code, r.err, r.stdout)
		}
	}
	r := nephele(t, "", "iam-policy", "--cluster", "0d1c2b3a-4f5e-6d7c-8b9a-0f1e2d3c4b5a", "--vpc", "vpc-0123456789abcdef0,vpc-01234567", "--vpc", "vpc-01234567",
		"--region", "eu-west-1", "--region", "eu-central-1", "--account-id", "111122223333")
	if r.code != ExitDone || r.err != "" || !json.Valid([]byte(r.stdout)) {
		t.Errorf("exit %d, %s", r.code, r.err)
	}
	for text, count := range map[string]int{
		`"aws:ResourceTag/nephele.io/cluster": "0d1c2b3a-4f5e-6d7c-8b9a-0f1e2d3c4b5a"`: 2, `"aws:RequestTag/nephele.io/cluster": "0d1c2b3a-4f5e-6d7c-8b9a-0f1e2d3c4b5a"`: 1,
		`"arn:aws:ec2:*:*:vpc/vpc-01234567"`: 7, `"arn:aws:ec2:*:*:vpc/vpc-0123456789abcdef0"`: 7, `"aws:RequestedRegion"`: strings.Count(r.stdout, `"Sid"`),
		`"eu-central-1"`: strings.Count(r.stdout, `"Sid"`), ":111122223333:security-group/*": 5, ":111122223333:network-interface/*": 2,
	} {
		if got := strings.Count(r.stdout, text); got != count || count == 0 {
			t.Errorf("%s is there %d times; want %d\n%s", text, got, count, r.stdout)
		}
	}
	for region, partition := range map[string]string{"cn-north-1": "aws-cn", "us-gov-west-1": "aws-us-gov", "us-isob-east-1": "aws-iso-b", "eusc-de-east-1": "aws-eusc", "us-east-1": "aws"} {
		if r := nephele(
			t,
			"",
			"iam-policy",
			"--cluster",
			"c",
			"--region",
			region,
		); r.code != ExitDone ||
			strings.Count(r.stdout, "arn:"+partition+":ec2:") != strings.Count(r.stdout, "arn:") {
			t.Errorf("%s: exit %d\n%s", region, r.code, r.stdout)
		}
	}
	many := make([]string, 200)
	for i := range many {
		many[i] = fmt.Sprintf("vpc-%017x", i)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--cluster", ""}, "--cluster is empty; leave it out"},
		{[]string{"--vpc", ""}, "--vpc is empty; leave it out"},
		{[]string{"--cluster", "*"}, `--cluster "*": want the id of a cluster`},
		{[]string{"--cluster", "${aws:username}"}, "want the id of a cluster"},
		{[]string{"--cluster", "a b"}, "want the id of a cluster"},
		{[]string{"--vpc", "vpc-*"}, `--vpc "vpc-*": want the id of a VPC, as vpc-0123456789abcdef0`},
		{[]string{"--vpc", "web"}, "want the id of a VPC"},
		{[]string{"--region", "Frankfurt"}, `--region "Frankfurt": want the name of a region, as eu-west-1`},
		{[]string{"--region", "*"}, "want the name of a region"},
		{[]string{"--region", "eu-west-1,cn-north-1"}, "one policy cannot be for aws and aws-cn"},
		{[]string{"--account-id", "1234"}, `--account-id "1234": want 12 digits`},
		{[]string{"--mode", "release"}, `--mode "release": want plan or enforce`},
		{[]string{"--mode", ""}, `--mode "": want plan or enforce`},
		{[]string{"--vpc", strings.Join(many, ",")}, "and AWS takes 10240: name fewer VPCs"},
		{[]string{"please"}, "please"},
	} {
		if r := nephele(t, "", append([]string{"iam-policy"}, c.args...)...); r.code != ExitBadInput || r.stdout != "" || !strings.Contains(r.err, c.want) {
			t.Errorf("%q: exit %d, %s; want %s", c.args, r.code, r.err, c.want)
		}
	}
	if r := nephele(t, "", "iam-policy", "--vpc", strings.Join(many[:20], ",")); r.code != ExitDone || !strings.Contains(r.err, "attach it as an inline policy") {
		t.Errorf("a long policy: exit %d, %s", r.code, r.err)
	}
	if r := nephele(
		t,
		"",
		"iam-policy",
		"--mode",
		"plan",
		"--cluster",
		"c",
		"--vpc",
		"vpc-01234567",
	); r.code != ExitDone ||
		!strings.Contains(r.err, "change nothing with --mode plan") {
		t.Errorf("pins of reading: exit %d, %s", r.code, r.err)
	}
}
