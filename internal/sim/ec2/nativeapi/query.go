package nativeapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/ec2/wire"
	"github.com/nephele-io/nephele/internal/sim/native"
)

// This file has what RDS and ElastiCache do alike.

// markerPaging is that of all Describe actions of both: "Default: 100. Constraints: Minimum 20,
// maximum 100."
var markerPaging = paging{"Marker", "MaxRecords", 20, 100, 100}

func invalidValue(format string, args ...any) error {
	return refuse("InvalidParameterValue", format, args...)
}

// queryRefusal gives the world's refusals the names of both. What is not there, and what is being
// changed, has a name for each kind of services.
func queryRefusal(err error, notFound, busy string) error {
	return translate(err, map[string]string{
		"ServiceNotFound": notFound + "/404", "ServiceBusy": busy, "ServiceInvalid": "InvalidParameterValue",
		"DifferentNetworks": "InvalidVPCNetworkStateFault", "TagInvalid": "InvalidParameterValue",
		"InvalidGroup.NotFound": "InvalidParameterValue", "InvalidGroupId.Malformed": "InvalidParameterValue",
		"SecurityGroupsPerInterfaceLimitExceeded": "InvalidParameterValue",
	})
}

// identified keeps the service that an identifier or ARN names; all if it is empty.
func identified(all []native.Service, id, word, notFound string) ([]native.Service, error) {
	if id == "" {
		return all, nil
	}
	all = slices.DeleteFunc(all, func(s native.Service) bool { return !strings.EqualFold(s.Name, id) && s.ARN() != id })
	if len(all) == 0 {
		return nil, withStatus(http.StatusNotFound, notFound, "%s %s not found.", word, id)
	}
	return all, nil
}

// pageOf answers with a page of services, each an element of that name in the list.
func pageOf(c *Call, all []native.Service, name string, write func(native.Service) []wire.Element) (Answer, error) {
	p, err := page(c, all, func(s native.Service) string { return s.Name }, markerPaging, invalidValue)
	if err != nil {
		return Answer{}, err
	}
	return Answer{XML: []wire.Element{list(name+"s", name, p.Items, write), wire.Text("Marker", p.Next)}}, nil
}

// setGroups sets the groups that a Modify action names, if it names any. part refuses them of a
// member, whose groups are the groups of the whole; nil where there are no members.
func (c *Call) setGroups(ref native.Ref, param string, part func(native.Service) error, refusal func(native.Kind, error) error) (native.Service, error) {
	if err := c.immediately(); err != nil {
		return native.Service{}, err
	}
	groups := c.Params.Strings(param)
	s, err := c.Region.Services().Get(ref)
	switch {
	case err != nil || len(groups) == 0:
	case s.Parent != "" && part != nil:
		err = part(s)
	default:
		s, err = c.Region.Services().SetGroups(c.Action, ref, groups)
	}
	return s, refusal(ref.Kind, err)
}

// modified answers a Modify action with the service as it is then, in an element of that name.
func modified[W any](s native.Service, err error, writer func() (W, error), name string, write func(W, native.Service) []wire.Element) (Answer, error) {
	if err != nil {
		return Answer{}, err
	}
	w, err := writer()
	return Answer{XML: []wire.Element{wire.Node(name, write(w, s)...)}}, err
}
