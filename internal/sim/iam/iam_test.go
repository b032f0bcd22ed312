package iam

import (
	"strings"
	"testing"
)

const document = `{
  "Version": "2012-10-17",
  "Statement": [
    {"Effect": "Allow", "Action": ["ec2:Describe*", "ec2:getmanagedprefixlistentries"], "Resource": "*"},
    {"Effect": "Allow", "Action": "ec2:DeleteSecurityGroup", "Resource": "arn:aws:ec2:*:*:security-group/*",
     "Condition": {"StringLike": {"aws:ResourceTag/owner": ["us-*", "we"]}}},
    {"Effect": "Allow", "Action": "ec2:DeleteTags", "Resource": "*",
     "Condition": {"ForAllValues:StringLike": {"aws:TagKeys": "ours/*"}, "Null": {"aws:TagKeys": "false"}}},
    {"Effect": "Allow", "Action": "ec2:RunInstances", "Resource": "*",
     "Condition": {"ForAnyValue:StringEquals": {"aws:TagKeys": ["a", "b"]}, "StringNotEquals": {"ec2:Region": "eu-west-1"}}},
    {"Effect": "Allow", "Action": "ec2:CreateTags", "Resource": "*", "Condition": {"StringEqualsIfExists": {"ec2:CreateAction": "RunInstances"}}},
    {"Effect": "Deny", "Action": "ec2:*", "Resource": "arn:aws:ec2:*:999988887777:*"}
  ]
}`

func TestAllows(t *testing.T) {
	t.Parallel()
	p, err := Parse([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	const group, foreign = "arn:aws:ec2:eu-west-1:111122223333:security-group/sg-1", "arn:aws:ec2:eu-west-1:999988887777:security-group/sg-1"
	type keys = map[string][]string
	for _, c := range []struct {
		action, resource string
		keys             keys
		want             bool
	}{
		{"ec2:DescribeVpcs", "*", nil, true},
		{"ec2:GetManagedPrefixListEntries", "*", nil, true},
		{"ec2:CreateVpc", "*", nil, false},
		{"sqs:ReceiveMessage", "*", nil, false},
		{"ec2:DeleteSecurityGroup", group, keys{"aws:ResourceTag/owner": {"us-east"}}, true},
		{"ec2:DeleteSecurityGroup", group, keys{"AWS:resourcetag/owner": {"we"}}, true},
		{"ec2:DeleteSecurityGroup", group, keys{"aws:ResourceTag/owner": {"them"}}, false},
		{"ec2:DeleteSecurityGroup", group, nil, false},
		{"ec2:DeleteSecurityGroup", "arn:aws:ec2:eu-west-1:111122223333:vpc/vpc-1", keys{"aws:ResourceTag/owner": {"we"}}, false},
		{"ec2:DeleteSecurityGroup", foreign, keys{"aws:ResourceTag/owner": {"we"}}, false},
		{"ec2:DeleteTags", "*", keys{"aws:TagKeys": {"ours/a", "ours/b"}}, true},
		{"ec2:DeleteTags", "*", keys{"aws:TagKeys": {"ours/a", "Name"}}, false},
		{"ec2:DeleteTags", "*", nil, false},
		{"ec2:RunInstances", "*", keys{"aws:TagKeys": {"x", "b"}, "ec2:Region": {"us-east-1"}}, true},
		{"ec2:RunInstances", "*", keys{"aws:TagKeys": {"b"}}, true},
		{"ec2:RunInstances", "*", keys{"aws:TagKeys": {"b"}, "ec2:Region": {"eu-west-1"}}, false},
		{"ec2:RunInstances", "*", keys{"ec2:Region": {"us-east-1"}}, false},
		{"ec2:CreateTags", "*", nil, true},
		{"ec2:CreateTags", "*", keys{"ec2:CreateAction": {"CreateVpc"}}, false},
	} {
		if have := p.Allows(Request{Action: c.action, Resource: c.resource, Keys: c.keys}); have != c.want {
			t.Errorf("%s on %s with %v: allowed %v, want %v", c.action, c.resource, c.keys, have, c.want)
		}
	}
	if (&Policy{}).Allows(Request{Action: "ec2:DescribeVpcs", Resource: "*"}) {
		t.Error("an empty policy allows something")
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	statement := func(s string) string { return `{"Version": "2012-10-17", "Statement": [` + s + `]}` }
	for _, c := range []struct{ document, want string }{
		{`[]`, "policy document"},
		{`{"Statement": []}`, "Version: expected 2012-10-17"},
		{statement(`{"Effect": "Perhaps", "Action": "ec2:*", "Resource": "*"}`), `Statement[0]: element Effect: expected Allow or Deny, found "Perhaps"`},
		{statement(`{"Effect": "Allow", "Resource": "*"}`), "Action: expected at least one"},
		{statement(`{"Effect": "Allow", "Action": "DescribeVpcs", "Resource": "*"}`), `Action: expected SERVICE:CALL, found "DescribeVpcs"`},
		{statement(`{"Effect": "Allow", "Action": "ec2:*"}`), "Resource: expected at least one"},
		{statement(`{"Effect": "Allow", "NotAction": "ec2:*", "Resource": "*"}`), "NotAction"},
		{statement(`{"Effect": "Allow", "Action": "ec2:*", "Resource": "*", "Condition": {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}}`), "the operator IpAddress is not simulated"},
		{statement(`{"Effect": "Allow", "Action": "ec2:*", "Resource": "*", "Condition": {"SomeValues:StringLike": {"aws:TagKeys": "x"}}}`), "expected ForAllValues or ForAnyValue"},
		{statement(`{"Effect": "Allow", "Action": "ec2:*", "Resource": "*", "Condition": {"Null": {"aws:TagKeys": "no"}}}`), `expected "true" or "false"`},
		{statement(`{"Effect": "Allow", "Action": "ec2:*", "Resource": "arn:aws:ec2:*:*:instance/${aws:username}"}`), "policy variables are not simulated"},
	} {
		if _, err := Parse([]byte(c.document)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.document, err, c.want)
		}
	}
}

func TestLike(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true}, {"*", "", true}, {"*", "abc", true}, {"a*c", "abbc", true}, {"a*c", "abcd", false}, {"a?c", "abc", true}, {"a?c", "ac", false},
		{"*b*b*", "abab", true}, {"*b*b*", "aba", false}, {"a**", "a", true}, {"?", "", false}, {"abc", "ab", false},
	} {
		if have := like(c.pattern, c.s); have != c.want {
			t.Errorf("like(%q, %q) = %v", c.pattern, c.s, have)
		}
	}
}
