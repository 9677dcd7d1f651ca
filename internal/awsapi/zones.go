package awsapi

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/route53"
	"github.com/aws/aws-sdk-go-v2/service/route53/types"
)

// Zone is a private hosted zone.
type Zone struct {
	// ID is the zone's ID, and Name its domain without a dot at the end.
	ID, Name string
	// Account and Service are the account or the AWS service that owns the zone.
	Account, Service string
}

// Zones lists the private hosted zones of a VPC, in the SDK's region.
func (a *AWS) Zones(ctx context.Context, vpc string) ([]Zone, error) {
	var zones []Zone
	in := &route53.ListHostedZonesByVPCInput{VPCId: aws.String(vpc), VPCRegion: types.VPCRegion(a.Region)}
	for {
		out, err := a.route53.ListHostedZonesByVPC(ctx, in)
		if err != nil {
			return nil, explain("listing the private hosted zones of the VPC "+vpc, err)
		}
		for _, z := range out.HostedZoneSummaries {
			zone := Zone{ID: aws.ToString(z.HostedZoneId), Name: strings.ToLower(strings.TrimSuffix(aws.ToString(z.Name), "."))}
			if z.Owner != nil {
				zone.Account, zone.Service = aws.ToString(z.Owner.OwningAccount), aws.ToString(z.Owner.OwningService)
			}
			zones = append(zones, zone)
		}
		if aws.ToString(out.NextToken) == "" {
			return zones, nil
		}
		in.NextToken = out.NextToken
	}
}

// RecordsFor says whether a hosted zone has records for a name, its own or those of
// a wildcard.
func (a *AWS) RecordsFor(ctx context.Context, zone, name string) (bool, error) {
	pages := route53.NewListResourceRecordSetsPaginator(a.route53, &route53.ListResourceRecordSetsInput{HostedZoneId: aws.String(zone)})
	for r, err := range each[types.ResourceRecordSet](ctx, "listing the records of the hosted zone "+zone, pages) {
		if err != nil {
			return false, err
		}
		if recordMatches(aws.ToString(r.Name), name) && r.Type != types.RRTypeNs && r.Type != types.RRTypeSoa {
			return true, nil
		}
	}
	return false, nil
}

// recordMatches says whether a record's name, which may begin with a wildcard, is
// for a name. Route 53 writes the asterisk as \052.
func recordMatches(record, name string) bool {
	record = strings.ToLower(strings.TrimSuffix(record, "."))
	domain, wild := strings.CutPrefix(strings.Replace(record, `\052`, "*", 1), "*.")
	return record == name || wild && strings.HasSuffix(name, "."+domain)
}
