package rules

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/templates"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// template is the content of a file before any bootstrap.
type template struct {
	host.Attributes
	Content []byte
	// Recorded says that the image's own manifest contains the template, byte
	// for byte. Otherwise it is the built-in template, for images of other
	// origins.
	Recorded bool
	// Guessed says that only another template shows that a bootstrap fills this
	// one in. Missing files stay missing.
	Guessed bool
}

// reversal is a filled-in file turned back into its template.
type reversal struct {
	Content []byte
	// Unknown are values that look filled in but match no known pattern. They
	// are reported, never guessed.
	Unknown []string
}

// restore puts a placeholder in place of the value in a line, if the value is one that a bootstrap
// writes.
func (r *reversal) restore(lines []string, i int, m []string, placeholder string, filled bool, what string) {
	switch {
	case m[3] == placeholder:
	case filled:
		lines[i] = m[1] + m[2] + placeholder + m[4] + m[5]
	default:
		r.Unknown = append(r.Unknown, fmt.Sprintf("line %d: %s", i+1, what))
	}
}

// reverser replaces values that a bootstrap filled in with placeholders, and
// changes nothing else. The template shows the original values.
type reverser func(current, template []byte) (reversal, error)

// restore plans to turn the row's file back into its template:
//   - missing, empty, or written by `eksnode init`: the template is written, but
//     a missing file stays missing where no script fills it in;
//   - filled in: the placeholders are restored. If the rest equals the template,
//     the template is written byte for byte; otherwise a user's edits stay;
//   - a file of an image without a template comes from a boot, and is removed.
func restore(reverse reverser) func(*rule.Draft) {
	return func(d *rule.Draft) {
		name := d.Paths[0]
		tmpl, current := templateOf(d, name), d.Content(name)
		// On an Outpost, bootstrap.sh moves the template, and the kubelet writes a file with its own certificate.
		kubelets := name == templates.Kubeconfig &&
			bytes.Contains(current, []byte("client-certificate: "+rule.KubeletDir+"/pki/"))
		switch {
		case current == nil && (tmpl == nil || tmpl.Guessed):
			return
		case tmpl == nil:
			d.Plan(plan.Remove, name, "a boot generated it for the old cluster")
		case len(bytes.TrimSpace(current)) == 0:
			why := "the template is missing"
			d.Act(rule.WriteAction(d.Host, plan.Restore, name, tmpl.Content, tmpl.Attributes, why))
		case isInits(current) || kubelets:
			planRestore(d, name, tmpl.Content, tmpl, tmpl.Recorded, "first boot wrote it")
		default:
			planReversal(d, name, reverse, current, tmpl)
		}
	}
}

func planReversal(d *rule.Draft, name string, reverse reverser, current []byte, tmpl *template) {
	if tmpl.Recorded && bytes.Equal(current, tmpl.Content) {
		return
	}
	back, err := reverse(current, tmpl.Content)
	if err != nil {
		d.Find(name, fmt.Sprintf("the file differs from its template and cannot be restored (%v): repair or remove "+
			"the file by hand", err))
		return
	}
	for _, u := range back.Unknown {
		d.Find(name, u+": the value looks filled in but has no known form; if it belongs to the old cluster, "+
			"restore the placeholder by hand")
	}
	want, why := back.Content, "a bootstrap filled it in; other edits stay"
	whole := equivalent(back.Content, tmpl.Content)
	if whole {
		want, why = tmpl.Content, "a bootstrap filled it in"
	}
	if !bytes.Equal(want, current) && (tmpl.Recorded || !equivalent(want, current)) {
		planRestore(d, name, want, tmpl, whole && tmpl.Recorded, why)
	}
}

// equivalent reports whether two files mean the same: as JSON if both are JSON,
// otherwise as text without space at the end of lines and around the text.
func equivalent(a, b []byte) bool {
	ja, errA := parseObject(a)
	jb, errB := parseObject(b)
	if errA == nil && errB == nil {
		return ja.equal(jb)
	}
	return plainText(a) == plainText(b)
}

// plainText returns a text without space at the end of lines and around the
// text.
func plainText(text []byte) string {
	var lines []string
	for line := range strings.Lines(string(text)) {
		lines = append(lines, strings.TrimRight(line, " \t\r\n"))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// The placeholders in bootstrap.sh's templates.
const (
	endpointPlaceholder = "MASTER_ENDPOINT"
	clusterPlaceholder  = "CLUSTER_NAME"
	regionPlaceholder   = "AWS_REGION"
	sandboxPlaceholder  = "SANDBOX_IMAGE"
)

var (
	serverLine  = rule.Expression(`^(\s*server:\s*)(["']?)(.*?)(["']?)(\s*)$`)
	listItem    = rule.Expression(`^(\s*-\s*)(["']?)(.*?)(["']?)(\s*)$`)
	sandboxLine = rule.Expression(`^(\s*(?:sandbox_image|sandbox)\s*=\s*)(["'])(.*?)(["'])(\s*(?:#.*)?)$`)

	// pauseImage matches EKS's pause image in the registry of any partition.
	pauseImage = rule.Expression(`^\d{12}\.dkr[.-]ecr(-fips)?\.[a-z0-9-]+\.[a-z0-9.-]+/eks/pause(:|@)`)
	// harmlessPause are pause images that name no account and no region.
	harmlessPause = rule.Expression(`^(registry\.k8s\.io|k8s\.gcr\.io|public\.ecr\.aws|localhost)/`)
	clusterName   = rule.Expression(`^[0-9A-Za-z][A-Za-z0-9_-]{0,99}$`)
	regionName    = rule.Expression(`^[a-z]{2,4}(-[a-z]+)+-\d+$`)
)

// argumentPlaceholders has the placeholder of the value after each argument of
// the token command: -i and --cluster-id of aws-iam-authenticator,
// --cluster-name of the AWS CLI, and --region of both.
var argumentPlaceholders = map[string]struct {
	placeholder string
	valid       func() *regexp.Regexp
}{
	"-i":             {clusterPlaceholder, clusterName},
	"--cluster-id":   {clusterPlaceholder, clusterName},
	"--cluster-name": {clusterPlaceholder, clusterName},
	"--region":       {regionPlaceholder, regionName},
}

// reverseKubeconfig restores MASTER_ENDPOINT, CLUSTER_NAME and AWS_REGION. It
// works line by line, so that comments, order and quoting stay.
func reverseKubeconfig(current, _ []byte) (reversal, error) {
	var back reversal
	lines := strings.Split(string(current), "\n")
	seen := map[string]bool{}
	argument := ""
	for i, line := range lines {
		if m := serverLine().FindStringSubmatch(line); m != nil {
			seen[endpointPlaceholder] = true
			back.restore(lines, i, m, endpointPlaceholder, strings.HasPrefix(m[3], "https://"), "the server")
		}
		m := listItem().FindStringSubmatch(line)
		if m == nil {
			argument = ""
			continue
		}
		if p, ok := argumentPlaceholders[argument]; ok {
			seen[p.placeholder] = true
			back.restore(lines, i, m, p.placeholder, p.valid().MatchString(m[3]), "the value of "+argument)
		}
		argument = m[3]
	}
	var missing []string
	for _, p := range []string{endpointPlaceholder, clusterPlaceholder, regionPlaceholder} {
		if !seen[p] {
			missing = append(missing, p)
		}
	}
	if len(missing) > 0 {
		return reversal{}, fmt.Errorf("the file has no place for %s", strings.Join(missing, ", "))
	}
	back.Content = []byte(strings.Join(lines, "\n"))
	return back, nil
}

// reverseContainerdConfig replaces the EKS pause image of a region with
// SANDBOX_IMAGE. A template without this placeholder stays as it is.
func reverseContainerdConfig(current, template []byte) (reversal, error) {
	if !strings.Contains(string(template), sandboxPlaceholder) {
		return reversal{Content: current}, nil
	}
	var back reversal
	lines := strings.Split(string(current), "\n")
	found := false
	for i, line := range lines {
		m := sandboxLine().FindStringSubmatch(line)
		if m == nil {
			continue
		}
		found = true
		if !harmlessPause().MatchString(m[3]) {
			back.restore(lines, i, m, sandboxPlaceholder, pauseImage().MatchString(m[3]), "the pause image")
		}
	}
	if !found {
		return reversal{}, errors.New("the file names no sandbox image")
	}
	back.Content = []byte(strings.Join(lines, "\n"))
	return back, nil
}

// bootstrapKeys are the keys of kubelet-config.json that bootstrap.sh sets. A
// user set every other key that differs from the template.
var bootstrapKeys = []string{
	"clusterDNS", "evictionHard", "kubeReserved", "maxPods", "providerID", "systemReservedCgroup",
	"kubeReservedCgroup", "kubeAPIQPS", "kubeAPIBurst", "cgroupDriver", "cgroupRoot",
}

// First boot sets resolvConf, to this value only, where systemd-resolved's stub
// answers on the machine. Every other value is a user's.
const (
	resolvConfKey   = "resolvConf"
	resolvConfValue = `"/run/systemd/resolve/resolv.conf"`
)

// reverseKubeletConfig restores the template's values of the keys that
// bootstrap.sh sets, and removes keys that the template does not have. The
// order of keys and a user's keys stay.
func reverseKubeletConfig(current, template []byte) (reversal, error) {
	have, err := parseObject(current)
	if err != nil {
		return reversal{}, fmt.Errorf("the file is not a JSON object: %w", err)
	}
	want, err := parseObject(template)
	if err != nil {
		return reversal{}, fmt.Errorf("the template is not a JSON object: %w", err)
	}
	changed := false
	if _, ok := want.values[resolvConfKey]; !ok {
		if value, _ := have.values[resolvConfKey]; string(value) == resolvConfValue {
			changed = have.remove(resolvConfKey)
		}
	}
	for _, key := range bootstrapKeys {
		if value, ok := want.values[key]; ok {
			changed = have.set(key, value) || changed
		} else {
			changed = have.remove(key) || changed
		}
	}
	if !changed {
		return reversal{Content: slices.Clone(current)}, nil
	}
	text, err := have.text()
	return reversal{Content: text}, err
}

// templateOf returns the file at name as it was before any bootstrap. The
// source is the image's manifest or, on an image without a manifest that
// supports the bootstrap.sh contract, Amazon Linux 2. nil means that the image
// has no such template.
func templateOf(d *rule.Draft, name string) *template {
	if m := loaded(d); m != nil {
		t, ok := m.Template(name)
		if !ok {
			return nil
		}
		return &template{Content: []byte(t.Content), Attributes: t.Attributes(), Recorded: true}
	}
	for _, t := range templates.All() {
		if t.Path != name {
			continue
		}
		if supported := contractOf(d); supported != noContract {
			return &template{Content: t.Content, Attributes: host.Attributes{Mode: 0o644},
				Guessed: supported == knownTemplate}
		}
	}
	return nil
}

// planRestore plans a restored content. With modeToo, the file gets the template's mode: only root
// reads what first boot writes.
func planRestore(d *rule.Draft, name string, content []byte, tmpl *template, modeToo bool, why string) {
	attr, err := d.Host.Files.Attributes(name)
	d.Failed(err)
	if modeToo {
		attr.Mode = tmpl.Attributes.Mode
	}
	d.Act(rule.WriteAction(d.Host, plan.Restore, name, content, attr, why))
}
