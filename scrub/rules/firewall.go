package rules

import (
	"path"
	"regexp"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// firewallReaders find firewalls of the host.
func firewallReaders() map[string]reader {
	return map[string]reader{
		"host-firewall":   filters("forward", ""),
		"firewall-input":  filters("input", "10250"),
		"firewall-output": filters("output", `443|`+newOutput),
		"firewall-metadata": anyOf(
			lines(`^-A OUTPUT\s+-d 169\.254\.169\.254(/32)?\s+(-p tcp\s+(-m tcp\s+)?(--dport 80\s+)?)?-j (DROP|REJECT)`,
				iptablesFiles...),
			lines(`\bip daddr 169\.254\.169\.254\s+(tcp dport 80\s+)?(counter\s+)?(drop|reject)`, append(nftFiles,
				"/etc/nftables/*", "/etc/nftables.d/*")...),
		),
		"no-iptables":    there("/opt/cni/bin/portmap").unless(there(programs("iptables", "iptables-nft")...)),
		"nm-cloud-setup": enabled("nm-cloud-setup.service", "nm-cloud-setup.timer"),
	}
}

var (
	nftFiles      = []string{"/etc/nftables.conf", "/etc/sysconfig/nftables.conf"}
	iptablesFiles = []string{"/etc/sysconfig/iptables", "/etc/iptables/iptables.rules", "/etc/iptables/rules.v4"}
)

// firewall is a service that filters packets from boot on.
type firewall struct {
	unit string
	// files have its rules. blocks are the patterns by which they block a chain.
	files  []string
	blocks map[string]string
}

var (
	// The policy of FORWARD alone does not block: units of the kubelet set it.
	iptablesBlocks = map[string]string{
		"forward": `(?m)^-A FORWARD -j (DROP|REJECT)`, "input": `(?m)^-A INPUT -j (DROP|REJECT)|^:INPUT DROP`,
		"output": `(?m)^-A OUTPUT -j (DROP|REJECT)|^:OUTPUT DROP`,
	}
	nftBlocks = map[string]string{"forward": nftBlock("forward"), "input": nftBlock("input"),
		"output": nftBlock("output")}
	firewalls = []firewall{
		{"firewalld.service", nil, map[string]string{"forward": ""}},
		{"ufw.service", []string{"/etc/ufw/ufw.conf", "/etc/default/ufw", "/etc/ufw/user.rules"}, map[string]string{
			"forward": `(?m)^ENABLED=["']?yes`,
			"output":  `(?ms)^ENABLED=["']?yes.*^DEFAULT_OUTPUT_POLICY=["']?(DROP|REJECT)`}},
		{"nftables.service", nftFiles, nftBlocks},
		{"iptables.service", iptablesFiles[:2], iptablesBlocks},
		{"netfilter-persistent.service", iptablesFiles[2:], iptablesBlocks},
	}
)

func nftBlock(chain string) string {
	return `hook ` + chain + `\b[^}]*\b(policy drop|drop\s*}|reject[^;}\n]*\s*})`
}

// newOutput are rules of nftables, iptables and ufw that accept every new connection from
// the machine, as benchmarks demand beside the policy.
const newOutput = `hook output\b[^}]*\bct state [\w, {]*\bnew\b[\w, }]* accept|` +
	`-A (OUTPUT|ufw-user-output)( -p tcp)?( -m \w+)*( --(ct)?state \S*NEW\S*)? -j ACCEPT`

// filters finds firewalls that start at boot and block a chain, unless their
// rules match open. Firewalls that block more than one chain by themselves
// count for the chain forward.
func filters(chain, open string) reader {
	var paths []string
	for _, f := range firewalls {
		if _, blocks := f.blocks[chain]; blocks {
			paths = append(append(paths, starts+f.unit), f.files...)
		}
	}
	return reader{paths, func(d *rule.Draft) {
		for _, f := range firewalls {
			pattern, blocks := f.blocks[chain]
			if !blocks {
				continue
			}
			on := enabled(f.unit).findings(d)
			if len(on) == 0 {
				continue
			}
			text := filterRules(d, f.files)
			if regexp.MustCompile(pattern).MatchString(text) &&
				(open == "" || !regexp.MustCompile(open).MatchString(text)) {
				d.Find(on[0].Target, on[0].Reason+" and blocks the chain "+chain)
			}
		}
	}}
}

var nftInclude = rule.Expression(`(?m)^\s*include\s+"([^"]+)"`)

// filterRules are the rules in files and in those that they include.
func filterRules(d *rule.Draft, files []string) string {
	var all strings.Builder
	for i := 0; i < len(files) && i < 100; i++ {
		text := d.Content(files[i])
		all.Write(text)
		for _, m := range nftInclude().FindAllStringSubmatch(string(text), -1) {
			pattern := m[1]
			if !path.IsAbs(pattern) {
				pattern = path.Join(path.Dir(files[i]), pattern)
			}
			files = append(files[:len(files):len(files)], d.Files(pattern)...)
		}
	}
	return all.String()
}
