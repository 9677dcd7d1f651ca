package rules

import (
	"bytes"
	"net"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/image/templates"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
	"github.com/eksnode/packer-plugin-eksnode/scrub/secrets"
)

// restoresNothing plans the removal of the unit's copy and enablement if the
// file that it loads is missing. The original in /etc/eks stays.
func restoresNothing(d *rule.Draft) {
	const rules = "/etc/sysconfig/iptables"
	if d.Exists(rules) {
		return
	}
	disable(d, "would start at boot, and "+rules+" is missing", d.Paths[1])
	d.RemoveWhere("bootstrap.sh copied it from /etc/eks, and "+rules+" is missing",
		func(unit []byte) bool { return bytes.Contains(unit, []byte("iptables-restore < "+rules)) }, d.Paths[0])
}

// ownLinesInHosts removes three kinds of lines from /etc/hosts: those that map
// 127.0.1.1 to this machine's name (Debian's custom, see hosts(5); cloud-init
// writes them again), those with addresses of a cluster's endpoint, which
// `eksnode init`, nodeadm and bootstrap.sh add on an Outpost, and hostBlocks.
func ownLinesInHosts(d *rule.Draft) {
	kept, why := withoutOwnLines(string(d.Content(d.Paths[0])))
	if len(why) > 0 {
		d.Write(plan.Write, d.Paths[0], []byte(kept), strings.Join(why, "; "))
	}
}

// withoutOwnLines returns a hosts(5) without the machine's own lines, and a
// description of the removed lines.
func withoutOwnLines(text string) (left string, why []string) {
	drop := func(reason string) bool {
		if !slices.Contains(why, reason) {
			why = append(why, reason)
		}
		return true
	}
	end, at := "", 0 // the end of a tool's block, and the place in the text
	left = rule.WithoutLines(text, func(line string) bool {
		if last := hostBlocks[strings.TrimSpace(line)]; end == "" && strings.Contains(text[at:], last) {
			end = last
		}
		at += len(line)
		switch f := strings.Fields(line); {
		case end != "":
			if strings.TrimSpace(line) == end {
				end = ""
			}
			return drop("a cluster's tool wrote where its machines are")
		case len(f) > 1 && f[0] == "127.0.1.1":
			return drop("127.0.1.1 has this machine's name")
		case strings.HasSuffix(strings.TrimSpace(line), templates.HostsMark), namesEndpoint(f):
			return drop("first boot wrote where the old cluster's control plane is")
		}
		return false
	})
	return left, why
}

// hostBlocks are the first and last lines of the blocks that kOps and kubespray
// write.
var hostBlocks = map[string]string{
	"# Begin host entries managed by kops - do not edit": "# End host entries managed by kops",
	"# Ansible inventory hosts BEGIN":                    "# Ansible inventory hosts END",
}

// namesEndpoint reports whether the fields of a line give an address of a
// cluster's endpoint.
func namesEndpoint(fields []string) bool {
	if len(fields) < 2 || net.ParseIP(fields[0]) == nil {
		return false
	}
	return slices.ContainsFunc(fields[1:], func(name string) bool {
		name, _, _ = strings.Cut(name, "#")
		return secrets.ClusterEndpoint().MatchString(name)
	})
}

// removesFiles removes the row's files, but no links: a link means that another program
// generates the file.
func removesFiles(why string) func(*rule.Draft) {
	return func(d *rule.Draft) {
		for _, name := range d.Matching(d.Paths...) {
			if d.IsFile(name) {
				d.Remove(name, why)
			}
		}
	}
}

const ofBuilder = "belongs to the builder machine"
