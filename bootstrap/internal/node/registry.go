package node

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// classic is EKS's registry account in the regions that are enabled by default.
const classic = "602401143452"

// accounts returns EKS's registry account of each region. Sources: amazon-eks-ami, July 2026, and
// https://docs.aws.amazon.com/eks/latest/userguide/add-ons-images.html.
func accounts() map[string]string {
	return map[string]string{
		"ap-northeast-1": classic, "ap-northeast-2": classic, "ap-northeast-3": classic, "ap-south-1": classic,
		"ap-southeast-1": classic, "ap-southeast-2": classic, "ca-central-1": classic, "eu-central-1": classic,
		"eu-north-1": classic, "eu-west-1": classic, "eu-west-2": classic, "eu-west-3": classic, "sa-east-1": classic,
		"us-east-1": classic, "us-east-2": classic, "us-west-1": classic, "us-west-2": classic,

		"af-south-1": "877085696533", "ap-east-1": "800184023465", "ap-east-2": "533267051163",
		"ap-south-2": "900889452093", "ap-southeast-3": "296578399912", "ap-southeast-4": "491585149902",
		"ap-southeast-5": "151610086707", "ap-southeast-6": "333609536671", "ap-southeast-7": "121268973566",
		"ca-west-1": "761377655185", "cn-north-1": "918309763551", "cn-northwest-1": "961992271922",
		"eu-central-2": "900612956339", "eu-isoe-west-1": "249663109785", "eu-south-1": "590381155156",
		"eu-south-2": "455263428931", "eusc-de-east-1": "877088126301", "il-central-1": "066635153087",
		"me-central-1": "759879836304", "me-south-1": "558608220178", "mx-central-1": "730335286997",
		"us-gov-east-1": "151742754352", "us-gov-west-1": "013241004608", "us-iso-east-1": "725322719131",
		"us-iso-west-1": "608367168043", "us-isob-east-1": "187977181151", "us-isob-west-1": "321162350305",
		"us-isof-east-1": "171035529773", "us-isof-south-1": "676585237158",
	}
}

// homes lists the region whose registry serves the unknown regions of a partition,
// by the prefix of the region names. The empty prefix matches all other regions.
var homes = []struct{ prefix, region string }{
	{"us-gov-", "us-gov-west-1"}, {"cn-", "cn-northwest-1"}, {"us-iso-", "us-iso-east-1"}, {"us-isob-", "us-isob-east-1"},
	{"us-isof-", "us-isof-south-1"}, {"eu-isoe-", "eu-isoe-west-1"}, {"eusc-", "eusc-de-east-1"}, {"", "us-west-2"},
}

// Registry is EKS's registry for one region.
type Registry struct{ Account, Region, Domain string }

// RegistryOf returns the registry that serves a region. domain is the partition's
// domain, such as amazonaws.com. account, if not empty, replaces EKS's account in the
// same region.
func RegistryOf(region, domain, account string) Registry {
	if account != "" {
		return Registry{account, region, domain}
	}
	all := accounts()
	if known, ok := all[region]; ok {
		return Registry{known, region, domain}
	}
	for _, h := range homes {
		if strings.HasPrefix(region, h.prefix) {
			return Registry{all[h.region], h.region, domain}
		}
	}
	return Registry{} // unreachable: the last prefix matches all regions
}

// Host returns the registry's host name, or with fips the host name of its FIPS
// endpoint. Not every region has a FIPS endpoint.
func (r Registry) Host(fips bool) string {
	service := "ecr"
	if fips {
		service = "ecr-fips"
	}
	return fmt.Sprintf("%s.dkr.%s.%s.%s", r.Account, service, r.Region, r.Domain)
}

// PauseImage returns the reference of EKS's pause image in a registry.
func PauseImage(host, version string) string { return host + "/eks/pause:" + version }

// Regions lists the known regions.
func Regions() []string { return slices.Sorted(maps.Keys(accounts())) }
