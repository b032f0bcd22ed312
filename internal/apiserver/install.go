package apiserver

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/server"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/api/stats/v1alpha1"
	"github.com/nephele-io/nephele/api/system/v1beta1"
	"github.com/nephele-io/nephele/internal/apiserver/bundle"
	"github.com/nephele-io/nephele/internal/apiserver/limits"
	"github.com/nephele-io/nephele/internal/apiserver/nodecertificates"
	"github.com/nephele-io/nephele/internal/apiserver/stats"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
)

// install adds everything that is served to the server, and tells the door what can be created.
func install(generic *server.GenericAPIServer, o Options, scheme *runtime.Scheme, codecs serializer.CodecFactory, d *door) error {
	g := gate{access: o.Enforcers, authorizer: o.Access.Authorizer, metrics: o.Metrics, watches: limits.NewWatches(o.Limits, o.Access.Own, o.Metrics.limit)}
	if o.Queries != nil {
		generic.Handler.NonGoRestfulMux.HandleFunc(endpointPath, serveEndpoint(o.Queries))
		generic.Handler.NonGoRestfulMux.HandleFunc(featureGatesPath, serveFeatureGates)
	}
	if o.LogLevel != nil {
		generic.Handler.NonGoRestfulMux.HandleFunc(logLevelPath, serveLogLevel(o.LogLevel, o.Logger))
	}
	var groups []*server.APIGroupInfo
	for gv, storages := range served(o, g) {
		group := server.NewDefaultAPIGroupInfo(gv.Group, scheme, runtime.NewParameterCodec(scheme), codecs)
		group.VersionedResourcesStorageMap[gv.Version] = storages
		if err := d.serves(gv, storages, scheme); err != nil {
			return err
		}
		groups = append(groups, &group)
	}
	if err := generic.InstallAPIGroups(groups...); err != nil {
		return fmt.Errorf("install the API groups: %w", err)
	}
	return nil
}

// served are the resources of all API groups.
func served(o Options, g gate) map[schema.GroupVersion]map[string]rest.Storage {
	out := map[schema.GroupVersion]map[string]rest.Storage{
		v1beta2.GroupVersion(): computed(o, g),
		v1beta1.GroupVersion(): {"controllerinfos": newControllerInfos(o).storage()},
	}
	if o.Statistics != nil {
		out[v1beta2.GroupVersion()]["nodestatssummaries"] = newSummaries(o, g)
		out[v1alpha1.GroupVersion()] = statistics(o.Statistics, g)
	}
	if o.Bundle != nil {
		b := bundle.New(o.Bundle, o.Certificate.Clock(), o.Logger)
		out[v1beta1.GroupVersion()]["supportbundles"] = b
		out[v1beta1.GroupVersion()]["supportbundles/download"] = b.Download()
	}
	if o.Reviews != nil {
		out[analysis.GroupVersion()] = newReviews(o, g)
	}
	if o.LocalPods != nil {
		if out[analysis.GroupVersion()] == nil {
			out[analysis.GroupVersion()] = map[string]rest.Storage{}
		}
		out[analysis.GroupVersion()]["localpods"] = newLocalPods(o.LocalPods, g)
	}
	if group := out[analysis.GroupVersion()]; group != nil && o.Hosts != nil {
		group["nodecertificates"] = nodecertificates.New(o.Hosts.Desk, isNode)
	}
	return out
}

// computed are the resources of controlplane.antrea.io.
func computed(o Options, g gate) map[string]rest.Storage {
	out := map[string]rest.Storage{
		"networkpolicies":                 newObjects(watchstore.NetworkPolicies, "networkpolicy", o.Store, g, o.Metrics),
		"networkpolicies/status":          &statuses{o.Metrics.counting(o.Reports), o.Store, g},
		"addressgroups":                   newObjects(watchstore.AddressGroups, "addressgroup", o.Store, g, o.Metrics),
		"appliedtogroups":                 newObjects(watchstore.AppliedToGroups, "appliedtogroup", o.Store, g, o.Metrics),
		"egressgroups":                    newEgressGroups(o.EgressGroups, g),
		"supportbundlecollections":        newSupportBundleCollections(g),
		"supportbundlecollections/status": &bundleStatuses{g},
	}
	if q := o.Queries; q != nil {
		e := eyes{o.Access.Authorizer}
		out["groupassociations"] = newGroupAssociations(q, e)
		out["ipgroupassociations"] = newIPGroupAssociations(q)
		out["groupmembers"] = newGroupMembers(q, e)
		out["clustergroupmembers"] = newClusterGroupMembers(q, e)
		out["networkpolicyevaluation"] = newEvaluations(q)
	}
	return out
}

// statistics are the resources of stats.antrea.io.
func statistics(b *stats.Book, g gate) map[string]rest.Storage {
	return map[string]rest.Storage{
		"networkpolicystats":              newNetworkPolicyStats(b),
		"antreanetworkpolicystats":        newAntreaNetworkPolicyStats(b),
		"antreaclusternetworkpolicystats": newAntreaClusterNetworkPolicyStats(b),
		"multicastgroups":                 newMulticastGroups(b),
		"nodelatencystats":                newLatencies(b, g),
	}
}
