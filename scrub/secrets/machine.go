package secrets

import (
	"regexp"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// NamingServers are the files of a node that name its API server.
var NamingServers = []string{
	rule.KubeletDir + "/kubeconfig", rule.KubeletDir + "/bootstrap-kubeconfig", "/etc/kubernetes/*.conf",
	"/etc/rancher/*/*.yaml", "/var/lib/rancher/*/agent/*.kubeconfig",
}

// ClusterEndpoint matches the name of an EKS cluster's endpoint, of every
// partition, with IPv4 and with IPv6.
var ClusterEndpoint = rule.Expression(
	`(?i)\b[0-9a-f]{32}\.([a-z0-9-]+\.)*(eks(-[a-z]+)?\.[a-z0-9.-]+|[a-z0-9-]+\.api\.aws\b)`)

var awsAccount = regexp.MustCompile(`^\d{12}$`)

// unusual selects kubeconfigs in other places than those that rules cover.
func unusual(name string) bool { return settings(name) && !rule.Kept(NamingServers, name) }

// networkFiles configure the machine's network.
var networkFiles = below("/etc/netplan", "/etc/network", "/etc/systemd/network", "/etc/NetworkManager",
	"/etc/sysconfig/network", "/etc/sysconfig/network-scripts", "/etc/udev/rules.d", "/etc/wicked")

// ofOneAccount selects the files in which an AWS account is no configuration of the
// image: registries and roles are, of the programs that pull images or log in.
func ofOneAccount(name string) bool {
	others := below("/etc/eks", "/etc/kubernetes", "/etc/containerd", "/etc/aws")
	return settings(name) && noSamples(name) && !others(name)
}

// HostPatterns match IDs of one EC2 instance, whose DMI UUID starts with ec2,
// and of one cluster.
var HostPatterns = []Pattern{
	{Kind: "an EC2 instance id", Hints: []string{"i-"}, Digit: true,
		Re: rule.Expression(`\bi-([0-9a-f]{17}|[0-9a-f]{8})\b`), sample: rule.Expression(`i-1234567890abcdef0`)},
	{Kind: "the id of a network interface in EC2", Hints: []string{"eni-"}, Digit: true,
		Re: rule.Expression(`\beni-([0-9a-f]{17}|[0-9a-f]{8})\b`), sample: rule.Expression(`eni-1234567890abcdef0`)},
	{Kind: "an EC2 instance's UUID", Hints: []string{"ec2"},
		Re: rule.Expression(`(?i)\bec2[0-9a-f]{5}-([0-9a-f]{4}-){3}[0-9a-f]{12}\b`)},
	{Kind: "an EC2 instance's host name", Hints: []string{"ip-"}, Re: rule.Expression(`\bip(-\d{1,3}){4}\b`)},
	{Kind: "a network interface's address", Hints: []string{"mac", "addr"}, in: networkFiles,
		Re: rule.Expression(`(?i)\b(mac-?addr(?:ess)?|hwaddr|lladdr|cloned-mac-address|address\})\s*[:=]+\s*["']?` +
			`([0-9a-f]{2}:){5}[0-9a-f]{2}`)},
	{Kind: "an AWS account's id", Hints: []string{"account"}, in: ofOneAccount,
		Re:     rule.Expression(`(?i)\baccount[_-]?(?:id)?["']?\s*[:=]\s*["']?(\d{12})\b`),
		sample: rule.Expression(`123456789012|0{12}|1{12}`)},
	{Kind: "an EKS cluster's endpoint", Hints: []string{".eks", ".api.aws"}, Re: ClusterEndpoint},
}

// AnyForm matches a UUID with and without hyphens, in lower and upper case.
func AnyForm(id string) func() *regexp.Regexp {
	plain := strings.ReplaceAll(id, "-", "")
	if awsAccount.MatchString(id) { // in ARNs and names of registries, accounts are normal
		return rule.Expression(`(?:^|[^\w.:-])` + id + `(?:$|[^\w.:-])`)
	}
	if len(plain) != 32 {
		return rule.Expression(`(?i)\b` + regexp.QuoteMeta(id) + `\b`)
	}
	parts := []string{plain[:8], plain[8:12], plain[12:16], plain[16:20], plain[20:]}
	return rule.Expression(`(?i)\b` + strings.Join(parts, "-?") + `\b`)
}
