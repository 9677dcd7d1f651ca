package preflight

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/version"
)

// learnCluster describes the cluster. The error for a cluster that does not exist
// says where it does not exist, and which clusters exist there.
func learnCluster(ctx context.Context, a *awsapi.AWS, name string, account fact[string]) fact[awsapi.Cluster] {
	c, err := a.Cluster(ctx, name)
	if !awsapi.IsNotFound(err) {
		return learn(c, err)
	}
	where := "the region " + a.Region
	if account.err == nil {
		where += " of the account " + account.value
	}
	others, listErr := a.Clusters(ctx)
	switch {
	case listErr != nil:
		err = fmt.Errorf("%w; %s does not have this cluster", err, where)
	case len(others) == 0:
		err = fmt.Errorf("%w; %s has no cluster", err, where)
	default:
		err = fmt.Errorf("%w; %s has these clusters: %s", err, where, listed(others))
	}
	return learn(c, err)
}

// listed joins names, and the number of the others when there are many.
func listed(names []string) string {
	const most = 20
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d others", strings.Join(names[:most], ", "), len(names)-most)
}

func checkCluster(f *facts) *result {
	c := f.cluster.value
	describe := "aws eks describe-cluster --name " + f.target.Cluster
	switch {
	case !c.Active():
		return bad("aws eks wait cluster-active --name "+c.Name, "the cluster is %s", c.Status)
	case c.Endpoint == "" || c.CA == "" || c.ServiceCIDR == "":
		return bad(describe, "EKS returned no endpoint, certificate authority or service network")
	}
	return good("%s, Kubernetes %s, services %s, authentication %s", c.Status, c.Version, c.ServiceCIDR,
		c.AuthenticationMode)
}

// skew says whether a component's version is allowed with a control plane's version
// (https://kubernetes.io/releases/version-skew-policy/).
func skew(component, plane string) (fits bool, err error) {
	have, ok := version.Minor(strings.TrimPrefix(component, "v"))
	want, alsoOK := version.Minor(plane)
	if !ok || !alsoOK {
		return false, fmt.Errorf("comparing the versions %q and %q: one is not a Kubernetes version", component, plane)
	}
	oldest := 3
	if want < 28 { // three are allowed since 1.28
		oldest = 2
	}
	return have <= want && have >= want-oldest, nil
}

func checkKubelet(f *facts) *result {
	kubelet, from := f.target.Kubelet, "as specified"
	if kubelet == "" {
		kubelet, from = f.publishedKubelet()
	}
	if kubelet == "" {
		i, not := f.seenImage()
		if not != nil {
			not.verdict = Unknown // the check of the image's state fails
			return not
		}
		kubelet, from = i.Tags[kubernetesTag], "by the image's tag"
		if kubelet == "" {
			return &result{verdict: Unknown, evidence: "the image has no tag " + kubernetesTag,
				remedy: fmt.Sprintf("aws ec2 create-tags --resources %s --tags Key=%s,Value=VERSION", i.ID,
					kubernetesTag)}
		}
	}
	fits, err := skew(kubelet, f.cluster.value.Version)
	if err != nil {
		return f.unseen(err)
	}
	if !fits {
		return bad(fmt.Sprintf(`packer build -var 'kubernetes_versions=["%s.PATCH"]' .`, f.cluster.value.Version),
			"the kubelet is %s %s, the control plane %s", kubelet, from, f.cluster.value.Version)
	}
	return good("kubelet %s %s, control plane %s", kubelet, from, f.cluster.value.Version)
}

func checkAddons(f *facts) *result {
	var seen []string
	for _, a := range f.addons.value {
		switch fits, err := skew(a.Version, f.cluster.value.Version); {
		case a.Name == "kube-proxy" && err != nil:
			return f.unseen(err)
		case a.Name == "kube-proxy" && !fits:
			return bad(f.updateAddon(a), "kube-proxy is %s, the control plane %s", a.Version, f.cluster.value.Version)
		case a.Name == "vpc-cni" && isOlder(a.Version, "v1.13.1"):
			return bad(f.updateAddon(a), "vpc-cni is %s, and follows the kubelet's mode of iptables since 1.13.1",
				a.Version)
		}
		said := a.Name + " " + a.Version
		if a.Status != "ACTIVE" { // CoreDNS is DEGRADED while there are no nodes
			said += " " + a.Status
		}
		seen = append(seen, said)
	}
	for _, a := range f.addons.value {
		if strings.HasSuffix(a.Status, "_FAILED") {
			return maybe(f.addonHealth(a.Name), "%s is %s", a.Name, a.Status)
		}
	}
	if f.cluster.value.AutoMode && (f.addon("vpc-cni") == nil || f.addon("kube-proxy") == nil) {
		return maybe("aws eks list-addons --cluster-name "+f.target.Cluster,
			"the nodes of EKS Auto Mode need no add-ons, but all other nodes need vpc-cni and kube-proxy, and EKS "+
				"does not manage both here; preflight cannot see the DaemonSets of kube-system")
	}
	if len(seen) == 0 {
		return maybe("kubectl get daemonset -n kube-system", "EKS manages no add-ons here, and preflight cannot see "+
			"the DaemonSets of kube-system")
	}
	return good("%s", strings.Join(seen, ", "))
}

func (f *facts) addonHealth(name string) string {
	return "aws eks describe-addon --cluster-name " + f.target.Cluster + " --addon-name " + name +
		" --query addon.health"
}

// updateAddon is the command that updates an add-on to the newest version for the
// control plane's version. Its settings stay.
func (f *facts) updateAddon(a awsapi.Addon) string {
	command := fmt.Sprintf("aws eks update-addon --cluster-name %s --addon-name %s --resolve-conflicts PRESERVE",
		f.target.Cluster, a.Name)
	if a.Role != "" {
		command += " --service-account-role-arn " + a.Role
	}
	if a.Configuration != "" {
		command += " --configuration-values " + show.ShellQuote(a.Configuration)
	}
	return command + fmt.Sprintf(" --addon-version $(aws eks describe-addon-versions --addon-name %s "+
		"--kubernetes-version %s --query addons[0].addonVersions[0].addonVersion --output text)",
		a.Name, f.cluster.value.Version)
}

// isOlder says whether a version such as v1.20.4-eksbuild.2 is older than another.
func isOlder(version, than string) bool {
	core, _, _ := strings.Cut("v"+strings.TrimPrefix(version, "v"), "-")
	return semver.IsValid(core) && semver.Compare(core, than) < 0
}

// docker is the network of Docker's bridge, which AL2 images and older control
// planes have
// (https://docs.aws.amazon.com/eks/latest/userguide/troubleshooting.html).
const docker = "172.17.0.0/16"

func checkServiceCIDR(f *facts) *result {
	c, v := f.cluster.value, f.vpc.value
	look := "aws ec2 describe-vpcs --vpc-ids " + v.ID + " --query Vpcs[0].CidrBlockAssociationSet[].CidrBlock"
	blocks := slices.Concat(v.CIDRs, v.IPv6)
	for _, block := range blocks {
		if overlap(block, c.ServiceCIDR) {
			return bad(look, "the service network %s overlaps %s of %s: EKS cannot change the service network, so the "+
				"cluster needs another one when it is created, or another VPC", c.ServiceCIDR, block, v.ID)
		}
	}
	if address := f.strangeDNS(); address != "" {
		return bad(f.userDataOf(f.userData.value.Family), "the cluster DNS in the user data is %s, outside the "+
			"service network %s", address, c.ServiceCIDR)
	}
	for _, s := range f.subnets.value {
		for _, r := range s.Routes {
			if covers(c.ServiceCIDR, r.To) {
				return maybe("aws ec2 describe-route-tables --route-table-ids "+s.Table,
					"the service network %s contains %s, to which %s routes over %s: pods and nodes cannot reach "+
						"machines there", c.ServiceCIDR, r.To, s.ID, r.Via)
			}
		}
	}
	for _, block := range append(blocks, c.ServiceCIDR) {
		if overlap(block, docker) {
			return maybe(look, "%s overlaps %s, the network of Docker's bridge: machines with Docker cannot reach "+
				"addresses there", block, docker)
		}
	}
	return good("services %s, %s %v", c.ServiceCIDR, v.ID, blocks)
}

func overlap(one, other string) bool {
	a, err := netip.ParsePrefix(one)
	b, alsoErr := netip.ParsePrefix(other)
	return err == nil && alsoErr == nil && a.Overlaps(b)
}

// strangeDNS returns an address of the user data's cluster DNS that is no service.
// NodeLocal DNSCache has link-local addresses, and the VPC may have a DNS server.
func (f *facts) strangeDNS() string {
	if f.userData.err != nil {
		return ""
	}
	for _, a := range f.userData.value.Cluster.DNSAddresses {
		address, err := netip.ParseAddr(a)
		if err != nil || address.IsLinkLocalUnicast() {
			continue
		}
		alone := netip.PrefixFrom(address, address.BitLen()).String()
		if !slices.ContainsFunc(append(slices.Concat(f.vpc.value.CIDRs, f.vpc.value.IPv6), f.cluster.value.ServiceCIDR),
			func(c string) bool { return covers(c, alone) }) {
			return a
		}
	}
	return ""
}
