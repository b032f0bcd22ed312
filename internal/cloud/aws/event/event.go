package event

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/values"
)

// The events that say something about a snapshot.
const (
	stateChange = "EC2 Instance State-change Notification"
	apiCall     = "AWS API Call via CloudTrail"
	tagChange   = "Tag Change on Resource"
)

const (
	// maxEventIDs bounds the ids that are taken from one event; one that names more is about the
	// whole region.
	maxEventIDs = 500
)

// event is what is read of an event.
type event struct {
	Kind      string    `json:"detail-type"`
	Account   string    `json:"account"`
	Region    string    `json:"region"`
	Time      time.Time `json:"time"`
	Resources []string  `json:"resources"`
	Detail    struct {
		Instance string `json:"instance-id"`

		Source    string    `json:"eventSource"`
		Name      string    `json:"eventName"`
		RequestID string    `json:"requestID"`
		Time      time.Time `json:"eventTime"`
		Region    string    `json:"awsRegion"`
		Recipient string    `json:"recipientAccountId"`
		ErrorCode string    `json:"errorCode"`
		ReadOnly  bool      `json:"readOnly"`
		Identity  struct {
			ARN       string `json:"arn"`
			InvokedBy string `json:"invokedBy"`
			Type      string `json:"type"`
		} `json:"userIdentity"`
		// ChangedKeys are the keys of a tag change.
		ChangedKeys []string `json:"changed-tag-keys"`
		Request     any      `json:"requestParameters"`
		Response    any      `json:"responseElements"`
	} `json:"detail"`
}

// Identity is what the cloud knows the account by: its number, and the name that calls go under.
type Identity struct {
	Account, ARN string
}

// Hint is what an event hints at, and the request that it is about; empty if it is about none.
type Hint struct {
	cloud.Change
	Request Request
	// Mark says that nothing but the mark of an instance has changed, which says nothing about a
	// snapshot and happens all the time. Our own proves that events come.
	Mark bool
}

// Read returns what an event hints at; false if that is nothing, for whatever reason.
func Read(body string, us Identity) (Hint, bool) {
	var e event
	if json.Unmarshal([]byte(body), &e) != nil || e.Account != us.Account || !regionName.MatchString(e.Region) {
		return Hint{}, false
	}
	c, relevant := e.change(us)
	if !relevant {
		return Hint{}, false
	}
	h := Hint{Change: c}
	if e.Kind == apiCall {
		h.Request = Request{Region: e.Region, Call: e.Detail.Name, ID: e.Detail.RequestID}
		h.Mark = onlyMark(tagKeys(e.Detail.Request))
	}
	return h, true
}

func (e *event) change(us Identity) (cloud.Change, bool) {
	c := cloud.Change{Region: e.Region}
	switch e.Kind {
	case stateChange:
		c.IDs = wellFormed([]string{e.Detail.Instance})
		return c, len(c.IDs) > 0
	case tagChange:
		for _, arn := range e.Resources {
			c.IDs = append(c.IDs, arn[strings.LastIndexByte(arn, '/')+1:])
		}
		c.IDs = wellFormed(c.IDs)
		return c, len(c.IDs) > 0 && !onlyMark(e.Detail.ChangedKeys)
	case apiCall:
		return e.call(c, us)
	}
	return cloud.Change{}, false
}

// regionName is the form of a region's name.
var regionName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+){1,8}$`)

// call reads CloudTrail's record of a call.
func (e *event) call(c cloud.Change, us Identity) (cloud.Change, bool) {
	d := &e.Detail
	kinds, relevant := kindsOfCall(d.Name)
	if !relevant || d.Source != "ec2.amazonaws.com" || d.ErrorCode != "" || d.ReadOnly || d.Recipient != "" && d.Recipient != us.Account {
		return cloud.Change{}, false
	}
	found := map[string]bool{}
	if id := ruledGroup(d.Name, d.Request); id != "" {
		found[id] = true
	} else {
		collect(d.Request, found)
		collect(d.Response, found)
	}
	for id := range found {
		if slices.Contains(kinds, values.KindOf(id)) {
			c.IDs = append(c.IDs, id)
		}
	}
	slices.Sort(c.IDs)
	tags := d.Name == "CreateTags" || d.Name == "DeleteTags"
	switch {
	case len(c.IDs) > maxEventIDs:
		c.IDs = nil
	case len(c.IDs) == 0 && tags && len(found) > 0:
		return cloud.Change{}, false // tags of volumes, images, ...
	}
	c.Author = cloud.Author{Name: cloud.Words(firstOf(d.Identity.ARN, d.Identity.InvokedBy, d.Identity.Type)), Call: d.Name, At: d.Time}
	c.Author.Ours = us.ARN != "" && d.Identity.ARN == us.ARN
	return c, true
}

// tagKeys are the keys of the tags that a call sets or removes.
func tagKeys(request any) (keys []string) {
	fields, _ := request.(map[string]any)
	set, _ := fields["tagSet"].(map[string]any)
	items, _ := set["items"].([]any)
	for _, x := range items {
		item, _ := x.(map[string]any)
		key, _ := item["key"].(string)
		keys = append(keys, key)
	}
	return keys
}

// onlyMark reports whether nothing but the mark of an instance has changed.
func onlyMark(keys []string) bool {
	return len(keys) > 0 && !slices.ContainsFunc(keys, func(key string) bool { return key != cloud.TagInstance })
}

// Changes reports whether a call changes what snapshots show.
func Changes(call string) bool {
	_, changes := kindsOfCall(call)
	return changes
}

// kindsOfCall returns the kinds of objects that a call changes; false for calls that change nothing
// that we look at.
func kindsOfCall(name string) ([]values.IDKind, bool) {
	switch name {
	case "CreateTags", "DeleteTags":
		return []values.IDKind{values.InstanceID, values.InterfaceID, values.GroupID, values.NetworkID}, true
	case "RunInstances", "StartInstances", "StopInstances", "TerminateInstances", "ModifyInstanceAttribute",
		"CreateNetworkInterface", "DeleteNetworkInterface", "AttachNetworkInterface", "DetachNetworkInterface",
		"ModifyNetworkInterfaceAttribute", "ResetNetworkInterfaceAttribute", "AssignPrivateIpAddresses",
		"UnassignPrivateIpAddresses", "AssignIpv6Addresses", "UnassignIpv6Addresses", "AssociateAddress", "DisassociateAddress":
		return []values.IDKind{values.InstanceID, values.InterfaceID}, true
	case "CreateSecurityGroup", "DeleteSecurityGroup", "AuthorizeSecurityGroupIngress", "AuthorizeSecurityGroupEgress",
		"RevokeSecurityGroupIngress", "RevokeSecurityGroupEgress", "ModifySecurityGroupRules",
		"UpdateSecurityGroupRuleDescriptionsIngress", "UpdateSecurityGroupRuleDescriptionsEgress":
		return []values.IDKind{values.GroupID}, true
	case "CreateVpc", "CreateDefaultVpc", "DeleteVpc", "AssociateVpcCidrBlock", "DisassociateVpcCidrBlock":
		return []values.IDKind{values.NetworkID}, true
	case "CreateVpcPeeringConnection", "AcceptVpcPeeringConnection", "RejectVpcPeeringConnection", "DeleteVpcPeeringConnection":
		return []values.IDKind{values.PeeringID}, true
	case "CreateManagedPrefixList", "ModifyManagedPrefixList", "DeleteManagedPrefixList", "RestoreManagedPrefixListVersion":
		return []values.IDKind{values.PrefixListID}, true
	}
	return nil, false
}

// ruledGroup returns the group whose rules a call changes, which is not one of those that the rules
// refer to; "" if it is another call or names the group otherwise.
func ruledGroup(call string, request any) string {
	fields, ok := request.(map[string]any)
	if !ok || !strings.Contains(call, "SecurityGroup") {
		return ""
	}
	id, _ := fields["groupId"].(string)
	if values.KindOf(id) != values.GroupID || !anyID.MatchString(id) {
		return ""
	}
	return id
}

// collect notes every id in a JSON value, wherever it stands, but not what people write as tags.
func collect(v any, into map[string]bool) {
	switch v := v.(type) {
	case string:
		if anyID.MatchString(v) {
			into[v] = true
		}
	case []any:
		for _, x := range v {
			collect(x, into)
		}
	case map[string]any:
		for key, x := range v {
			if key != "tagSet" && key != "tagSpecificationSet" {
				collect(x, into)
			}
		}
	}
}

// anyID is the form of the ids of all resources.
var anyID = regexp.MustCompile(`^[a-z]+-([0-9a-f]{8}|[0-9a-f]{17})$`)

// wellFormed keeps the ids of objects that we look at.
func wellFormed(ids []string) []string {
	return slices.DeleteFunc(ids, func(id string) bool { return values.KindOf(id) == values.OtherID || !anyID.MatchString(id) })
}

func firstOf(all ...string) string {
	for _, s := range all {
		if s != "" {
			return s
		}
	}
	return ""
}
