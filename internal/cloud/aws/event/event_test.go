package event

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/values"
)

// record is an event in the form that CloudTrail and EventBridge give it.
func record(account, name, extra, request, response string) string {
	return fmt.Sprintf(`{"version":"0","id":"36eb8523-97d0-4518-b33d-ee3579ff19f0","detail-type":"AWS API Call via CloudTrail",
"source":"aws.ec2","account":%q,"time":"2026-01-02T03:04:05Z","region":"eu-west-3","resources":[],"detail":{"eventVersion":"1.10",
"userIdentity":{"type":"AssumedRole","principalId":"AROAEXAMPLE:jo","arn":"arn:aws:sts::111122223333:assumed-role/ops/jo","accountId":"111122223333"},
"eventTime":"2026-01-02T03:04:04Z","eventSource":"ec2.amazonaws.com","eventName":%q,"awsRegion":"eu-west-3","sourceIPAddress":"203.0.113.7",
"userAgent":"console"%s,"requestParameters":%s,"responseElements":%s,"requestID":"r","eventID":"e","readOnly":false,"eventType":"AwsApiCall",
"managementEvent":true,"recipientAccountId":%[1]q,"eventCategory":"Management"}}`, account, name, extra, request, response)
}

// TestReadEvent: what events hint at. "-" stands for nothing, "*" for the whole region.
func TestReadEvent(t *testing.T) {
	t.Parallel()
	const us = "111122223333"
	for name, c := range map[string]struct{ body, want string }{
		"tags": {record(us, "CreateTags", "", `{"resourcesSet":{"items":[{"resourceId":"i-0123456789abcdef0"},{"resourceId":"vol-01234567"}]},
			"tagSet":{"items":[{"key":"x","value":"sg-01234567"}]}}`, `{"_return":true}`), "i-0123456789abcdef0"},
		"tags of a volume": {record(us, "CreateTags", "", `{"resourcesSet":{"items":[{"resourceId":"vol-01234567"}]}}`, "null"), "-"},
		"launch": {record(us, "RunInstances", "", `{"instancesSet":{"items":[{"imageId":"ami-01234567","minCount":1}]},"subnetId":"subnet-01234567"}`,
			`{"reservationId":"r-01234567","instancesSet":{"items":[{"instanceId":"i-01234567","vpcId":"vpc-01234567",
			"networkInterfaceSet":{"items":[{"networkInterfaceId":"eni-01234567"}]},"groupSet":{"items":[{"groupId":"sg-01234567"}]}}]}}`), "eni-01234567 i-01234567"},
		"rule":          {record(us, "AuthorizeSecurityGroupIngress", "", `{"groupId":"sg-01234567","ipPermissions":{"items":[{"groups":{"items":[{"groupId":"sg-89abcdef"}]}}]}}`, `{"_return":true}`), "sg-01234567"},
		"new group":     {record(us, "CreateSecurityGroup", "", `{"groupName":"web","vpcId":"vpc-01234567"}`, `{"groupId":"sg-01234567"}`), "sg-01234567"},
		"address":       {record(us, "AssociateAddress", "", `{"allocationId":"eipalloc-01234567","instanceId":"i-01234567"}`, `{"associationId":"eipassoc-01234567"}`), "i-01234567"},
		"address away":  {record(us, "DisassociateAddress", "", `{"associationId":"eipassoc-01234567"}`, `{"_return":true}`), "*"},
		"new VPC":       {record(us, "CreateVpc", "", `{"cidrBlock":"10.0.0.0/16"}`, `{"vpc":{"vpcId":"vpc-01234567"}}`), "vpc-01234567"},
		"list":          {record(us, "ModifyManagedPrefixList", "", `{"ModifyManagedPrefixListRequest":{"PrefixListId":"pl-01234567"}}`, `{}`), "pl-01234567"},
		"failed call":   {record(us, "CreateTags", `,"errorCode":"Client.UnauthorizedOperation"`, `{"resourcesSet":{"items":[{"resourceId":"i-01234567"}]}}`, "null"), "-"},
		"other call":    {record(us, "CreateVolume", "", `{"size":"8"}`, `{"volumeId":"vol-01234567"}`), "-"},
		"other account": {record("444455556666", "CreateTags", "", `{"resourcesSet":{"items":[{"resourceId":"i-01234567"}]}}`, "null"), "-"},
		"state":         {`{"detail-type":"EC2 Instance State-change Notification","account":"111122223333","region":"eu-west-3","detail":{"instance-id":"i-01234567","state":"running"}}`, "i-01234567"},
		"forged state":  {`{"detail-type":"EC2 Instance State-change Notification","account":"111122223333","region":"eu-west-3","detail":{"instance-id":"i-01234567;drop","state":"running"}}`, "-"},
		"forged region": {`{"detail-type":"EC2 Instance State-change Notification","account":"111122223333","region":"../..","detail":{"instance-id":"i-01234567"}}`, "-"},
		"tag change":    {`{"detail-type":"Tag Change on Resource","account":"111122223333","region":"eu-west-3","resources":["arn:aws:ec2:eu-west-3:111122223333:instance/i-01234567","arn:aws:s3:::b"],"detail":{}}`, "i-01234567"},
		"mark": {record(us, "CreateTags", "", `{"resourcesSet":{"items":[{"resourceId":"vpc-01234567"}]},
			"tagSet":{"items":[{"key":"nephele.io/instance","value":"abc 7"}]}}`, `{"_return":true}`), "mark"},
		"mark and claim": {record(us, "DeleteTags", "", `{"resourcesSet":{"items":[{"resourceId":"vpc-01234567"}]},
			"tagSet":{"items":[{"key":"nephele.io/instance"},{"key":"nephele.io/claimed-by"}]}}`, `{"_return":true}`), "vpc-01234567"},
		"odd tags":          {record(us, "CreateTags", "", `{"resourcesSet":{"items":[{"resourceId":"vpc-01234567"}]},"tagSet":{"items":[7,{"key":8}]}}`, "null"), "vpc-01234567"},
		"tag change, mark":  {`{"detail-type":"Tag Change on Resource","account":"111122223333","region":"eu-west-3","resources":["arn:aws:ec2:eu-west-3:111122223333:vpc/vpc-01234567"],"detail":{"changed-tag-keys":["nephele.io/instance"]}}`, "-"},
		"tag change, claim": {`{"detail-type":"Tag Change on Resource","account":"111122223333","region":"eu-west-3","resources":["arn:aws:ec2:eu-west-3:111122223333:vpc/vpc-01234567"],"detail":{"changed-tag-keys":["nephele.io/instance","nephele.io/claimed-by"]}}`, "vpc-01234567"},
		"wrong types":       {`{"detail-type":7,"account":"111122223333"}`, "-"},
		"very many":         {record(us, "TerminateInstances", "", `[`+strings.TrimSuffix(manyIDs(600), ",")+`]`, "null"), "*"},
	} {
		got, relevant := Read(c.body, Identity{Account: us})
		text := strings.Join(got.IDs, " ")
		switch {
		case !relevant:
			text = "-"
		case got.Mark:
			text = "mark"
		case len(got.IDs) == 0:
			text = "*"
		}
		if text != c.want {
			t.Errorf("%s: %q; want %q", name, text, c.want)
		}
		if relevant && (got.Region != "eu-west-3" || !slices.IsSorted(got.IDs)) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	c, _ := Read(record(us, "DeleteVpc", "", `{"vpcId":"vpc-01234567"}`, "null"), Identity{Account: us, ARN: "arn:aws:sts::111122223333:assumed-role/ops/jo"})
	if a := c.Author; a.Name != "arn:aws:sts::111122223333:assumed-role/ops/jo" || a.Call != "DeleteVpc" || a.At.Second() != 4 || !a.Ours {
		t.Errorf("author %+v", a)
	}
}

func manyIDs(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"i-%08x",`, i)
	}
	return b.String()
}

// FuzzReadEvent: whatever stands in a message, reading it ends, and what comes out is bounded and
// well formed.
func FuzzReadEvent(f *testing.F) {
	f.Add(record("111122223333", "CreateTags", "", `{"resourcesSet":{"items":[{"resourceId":"i-01234567"}]}}`, "null"))
	f.Add(`{"account":"111122223333","region":"eu-west-3","detail-type":"Tag Change on Resource","resources":["/","i-01234567"]}`)
	f.Fuzz(func(t *testing.T, body string) {
		c, relevant := Read(body, Identity{Account: "111122223333"})
		if !relevant {
			return
		}
		if len(c.IDs) > maxEventIDs || len([]rune(c.Author.Name)) > cloud.MaxWords || strings.ContainsAny(c.Author.Name, "\x00\n\r\x1b") {
			t.Errorf("%+v", c)
		}
		for _, id := range c.IDs {
			if values.KindOf(id) == values.OtherID || len(id) > 30 {
				t.Errorf("id %q", id)
			}
		}
	})
}
