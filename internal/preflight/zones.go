package preflight

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// hidingZone is a private hosted zone that hides public records of AWS.
type hidingZone struct {
	zone awsapi.Zone
	// lost are the names that nodes need and that the zone has no record for. own
	// are the names with a record. unread are those in a zone of another account.
	lost, own, unread []string
}

// domain is the domain of the region's services.
func (f *facts) domain() string {
	if f.part(1, "aws") == "aws-cn" {
		return f.region() + ".amazonaws.com.cn"
	}
	return f.region() + ".amazonaws.com"
}

// names lists the names that nodes look up and that only public DNS answers.
func (f *facts) names() []string {
	domain := f.domain()
	hosts := map[string]string{
		"ec2": "ec2." + domain, "ecr.api": "api.ecr." + domain, "ecr.dkr": "602401143452.dkr.ecr." + domain, "sts": "sts." + domain, "eks": "eks." + domain,
		"s3": "prod-" + f.region() + "-starport-layer-bucket.s3." + domain,
	}
	var list []string
	for _, svc := range f.services() {
		// The zone of an interface endpoint is for exactly the service's name.
		private := slices.ContainsFunc(f.vpc.value.Endpoints, func(e awsapi.Endpoint) bool {
			return e.Interface && e.PrivateDNS && strings.HasSuffix(e.Service, "."+f.region()+"."+svc.name)
		})
		if hosts[svc.name] != "" && !private {
			list = append(list, hosts[svc.name])
		}
	}
	// With private access, EKS has a zone for exactly the name of the API server.
	if u, err := url.Parse(f.cluster.value.Endpoint); err == nil && u.Hostname() != "" && !f.cluster.value.PrivateAccess {
		list = append(list, strings.ToLower(u.Hostname()))
	}
	return list
}

// readZones reads the private hosted zones of the cluster's VPC, and the records of
// those that hide names.
func (f *facts) readZones(ctx context.Context, a *awsapi.AWS) fact[[]hidingZone] {
	if f.cluster.err != nil || f.vpc.err != nil {
		return fact[[]hidingZone]{err: firstError(f.cluster.err, f.vpc.err)}
	}
	zones, err := a.Zones(ctx, f.cluster.value.VPC)
	if err != nil {
		return fact[[]hidingZone]{err: err}
	}
	var found []hidingZone
	for _, name := range f.names() {
		zone := closest(zones, name)
		if zone.Name == "" || zone.Service != "" {
			continue
		}
		foreign := f.account.err == nil && zone.Account != "" && zone.Account != f.account.value
		there := false
		if !foreign {
			if there, err = a.RecordsFor(ctx, zone.ID, name); err != nil {
				return fact[[]hidingZone]{err: err}
			}
		}
		i := slices.IndexFunc(found, func(h hidingZone) bool { return h.zone.ID == zone.ID })
		if i < 0 {
			i, found = len(found), append(found, hidingZone{zone: zone})
		}
		switch {
		case there:
			found[i].own = append(found[i].own, name)
		case foreign:
			found[i].unread = append(found[i].unread, name)
		default:
			found[i].lost = append(found[i].lost, name)
		}
	}
	return fact[[]hidingZone]{value: found}
}

func firstError(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

// closest returns the zone that answers for a name: the one with the longest domain.
func closest(zones []awsapi.Zone, name string) awsapi.Zone {
	var best awsapi.Zone
	for _, z := range zones {
		if (name == z.Name || strings.HasSuffix(name, "."+z.Name)) && len(z.Name) > len(best.Name) {
			best = z
		}
	}
	return best
}

func checkZones(f *facts) result {
	switch {
	case f.cluster.err != nil:
		return f.unseen(f.cluster.err)
	case f.hiding.err != nil && slices.ContainsFunc(f.subnets.value, f.foreign):
		return maybe("aws route53 list-hosted-zones-by-vpc --vpc-id "+f.cluster.value.VPC+" --vpc-region "+f.region(),
			"another account owns %s and its subnets, so its owner must check the private hosted zones (%v)", f.cluster.value.VPC, f.hiding.err)
	case f.hiding.err != nil:
		return f.unseen(f.hiding.err)
	}
	var own []string
	for _, h := range f.hiding.value {
		if len(h.lost) > 0 {
			return bad("aws route53 list-resource-record-sets --hosted-zone-id "+h.zone.ID,
				"the private hosted zone %s (%s) of %s hides %s and has no record for this name: add records, or disassociate the zone from the VPC",
				h.zone.Name, h.zone.ID, f.cluster.value.VPC, strings.Join(h.lost, ", "))
		}
		own = append(own, fmt.Sprintf("%s has records of its own for %s", h.zone.Name, strings.Join(append(h.own, h.unread...), ", ")))
	}
	for _, h := range f.hiding.value {
		// A zone for one service usually leads to an endpoint in another VPC.
		if len(h.unread) > 0 && h.zone.Name != h.unread[0] && !strings.HasSuffix(h.zone.Name, "."+f.domain()) {
			return maybe("aws route53 list-hosted-zones-by-vpc --vpc-id "+f.cluster.value.VPC+" --vpc-region "+f.region(),
				"the private hosted zone %s (%s) of the account %s hides %s: its owner must check that the zone has records for this name",
				h.zone.Name, h.zone.ID, h.zone.Account, strings.Join(h.unread, ", "))
		}
	}
	if len(own) > 0 {
		return good("%s", strings.Join(own, "; "))
	}
	return good("no zone of %s hides names that nodes need", f.cluster.value.VPC)
}
