package userdata

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
	"github.com/eksnode/packer-plugin-eksnode/internal/version/kubelet"
)

func renderAL2023(n Node, _ Family) ([]byte, error) {
	if err := n.without("NodeConfig has none", "bootstrap", "settings"); err != nil {
		return nil, err
	}
	parts := scripts(n.Pre)
	for _, config := range n.NodeConfigs {
		text, err := strictjson.WriteYAML(config)
		if err != nil {
			return nil, err
		}
		parts = append(parts, Part{ContentType: nodeconfig.MediaType, Content: text})
	}
	text, err := strictjson.WriteYAML(n.nodeConfig())
	parts = append(parts, Part{ContentType: nodeconfig.MediaType, Content: text})
	parts = append(append(parts, n.Parts...), scripts(n.Post)...)
	return message(parts...), err
}

func (n Node) nodeConfig() nodeconfig.NodeConfig {
	config := n.kubeletSettings()
	if len(n.Cluster.DNSAddresses) > 0 {
		config["clusterDNS"] = n.Cluster.DNSAddresses
	}
	_, reserves := config["reservedSystemCPUs"]
	if reserves || kubelet.FlagOf("reservedSystemCPUs", n.kubeletWords()) >= 0 {
		// The kubelet refuses reserved CPUs with the cgroups that first boot sets.
		for _, field := range []string{"systemReservedCgroup", "kubeReservedCgroup"} {
			if _, given := config[field]; !given {
				config[field] = ""
			}
		}
	}
	ca, _ := nodeconfig.Unbase64(n.Cluster.CA) // Validate has refused other texts
	c := nodeconfig.NodeConfig{APIVersion: nodeconfig.APIVersion, Kind: nodeconfig.Kind, Spec: nodeconfig.Spec{
		Cluster: nodeconfig.Cluster{
			Name: n.Cluster.Name, APIServerEndpoint: n.Cluster.Endpoint, CertificateAuthority: ca,
			CIDR: n.Cluster.CIDR, ID: n.Cluster.Outpost,
		},
		Containerd: n.Containerd, FeatureGates: n.FeatureGates,
		Instance: nodeconfig.Instance{
			LocalStorage: n.LocalStorage, Environment: n.environment(), Network: n.Network,
		},
		Kubelet: nodeconfig.Kubelet{
			Config: config, Flags: n.kubeletFlags(), MaxPodsExpression: n.MaxPodsExpression,
		},
	}}
	if n.Cluster.Outpost != "" {
		c.Spec.Cluster.EnableOutpost = new(true)
	}
	return c
}

func isAL2023(text string) bool {
	return hasPart(text, nodeconfig.MediaType) || !nodeconfig.IsMIME(text) && isNodeConfig(text)
}

func isNodeConfig(text string) bool { return nodeconfig.IsNodeConfig([]byte(text)) }

// placed is a NodeConfig and where its values are in the file.
type placed struct {
	node *yaml.Node
	at   position
	// flags is the number of the kubelet's flags.
	flags int
}

// line is where the last name of a path that the document has is, and depth how
// many of its names the document has.
func (p placed) line(path string) (line, depth int) {
	if len(p.node.Content) == 0 {
		return 0, 0
	}
	return lineOf(p.node.Content[0], path)
}

var index = show.Regexp(`^\[(\d+)\]`)

// lineOf follows a path such as spec.kubelet.flags[0]. Names may hold dots.
func lineOf(n *yaml.Node, path string) (line, depth int) {
	path = strings.TrimPrefix(path, ".")
	if found := index().FindStringSubmatch(path); found != nil && n.Kind == yaml.SequenceNode {
		if i, err := strconv.Atoi(found[1]); err == nil && i < len(n.Content) {
			line, depth := lineOf(n.Content[i], path[len(found[0]):])
			return line, depth + 1
		}
		return n.Line, 0
	}
	if n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content); i += 2 {
			rest, ok := strings.CutPrefix(path, n.Content[i].Value)
			if ok && n.Content[i].Value != "" && (rest == "" || rest[0] == '.' || rest[0] == '[') {
				if rest == "" {
					return n.Content[i].Line, 1
				}
				line, depth := lineOf(n.Content[i+1], rest)
				if depth == 0 {
					line = n.Content[i].Line
				}
				return line, depth + 1
			}
		}
	}
	return n.Line, 0
}

func checkAL2023(c *checker, text string) {
	var configs []nodeconfig.Part
	for _, p := range c.parts(text) {
		switch {
		case p.Header.Get("apiVersion") != "": // has been said: no empty line stands before it
			return
		case p.Media == nodeconfig.MediaType, p.Media == "" && !nodeconfig.IsMIME(text):
			configs = append(configs, p)
		default:
			c.cloudPart(p)
		}
	}
	if len(configs) == 0 {
		c.fail(0, "", "it has no part of type %s", nodeconfig.MediaType)
	}
	c.nodeConfigs(configs, true)
	c.readers()
}

// readers adds the verdicts of the programs that read NodeConfigs at first boot. The
// first is the parser of first boot itself.
func (c *checker) readers() {
	config, _, err := nodeconfig.Parse(c.content)
	if err == nil && !c.clusterElsewhere {
		err = config.Validate()
	}
	amazon := readByAmazon(c.content, !c.clusterElsewhere)
	for _, reader := range []struct {
		image string
		err   error
	}{{ThisImage, err}, {AmazonsImage, amazon}} {
		verdict := Reader{Image: reader.image, Reads: reader.err == nil}
		if reader.err != nil {
			verdict.Reason = nodeconfig.Printable(reader.err.Error())
		}
		c.report.Readers = append(c.report.Readers, verdict)
	}
	switch {
	case err != nil && !c.report.Failed():
		c.lines(err)
	case err == nil && amazon != nil:
		c.warn(0, "", "%s does not read the user data: %v", AmazonsImage, amazon)
	}
}

// maxConfigs bounds how many NodeConfigs are read.
const maxConfigs = 50

// nodeConfigs checks NodeConfigs that are merged. Whole says that there are no
// others.
func (c *checker) nodeConfigs(parts []nodeconfig.Part, whole bool) {
	var merged *nodeconfig.NodeConfig
	var places []placed
	broken := false
	for _, p := range parts {
		if c.configs++; c.configs > maxConfigs {
			c.fail(p.Before+1, "", "there are more than %d NodeConfigs", maxConfigs)
			return
		}
		config, place, err := c.nodeConfig(p)
		if err != nil {
			broken = true
			c.in(place.at).lines(err)
			continue
		}
		if config == nil {
			continue
		}
		places = append(places, place)
		if merged == nil {
			merged = config
			continue
		}
		c.in(place.at).contradictions(place, merged, config)
		if err := merged.Merge(config); err != nil {
			c.in(place.at).lines(err)
		}
	}
	if merged == nil {
		return
	}
	c.merged(merged, places, whole, broken)
}

// nodeConfig reads one NodeConfig, which may be encoded and compressed; nil for
// an empty part.
func (c *checker) nodeConfig(p nodeconfig.Part) (*nodeconfig.NodeConfig, placed, error) {
	place := placed{node: &yaml.Node{}, at: c.position(p)}
	config, text, warnings, err := nodeconfig.ReadPart(p)
	place.at.decoded = place.at.decoded || string(text) != p.Text
	if err != nil || config == nil {
		return nil, place, err
	}
	place.flags = len(config.Spec.Kubelet.Flags)
	c = c.in(place.at)
	for _, said := range warnings {
		c.each(said, c.warn)
	}
	if yaml.Unmarshal(text, place.node) == nil && len(place.node.Content) > 0 {
		if text := strictjson.Child(place.node.Content[0], "spec", "kubelet", "config"); text != nil {
			c.kubeletConfig("spec.kubelet.config", text, config.Spec.Kubelet.Config)
			if pods := strictjson.Child(text, "maxPods"); pods != nil {
				c.maxPods = []string{pods.Value} // the later NodeConfig wins
			}
		}
		c.flagsOf(place, config.Spec.Kubelet.Flags)
		if ca := config.Spec.Cluster.CertificateAuthority; len(ca) > 0 {
			line, _ := place.line("spec.cluster.certificateAuthority")
			c.authority(line, "spec.cluster.certificateAuthority", ca)
		}
	}
	return config, place, nil
}

func (c *checker) contradictions(later placed, merged, config *nodeconfig.NodeConfig) {
	a, b := merged.Spec.Cluster, config.Spec.Cluster
	line, _ := later.line("spec.cluster.name")
	if a.Name != "" && b.Name != "" && a.Name != b.Name {
		c.fail(line, "spec.cluster.name", "two NodeConfigs name two clusters, %q and %q", a.Name, b.Name)
		return
	}
	for _, said := range merged.Contradictions(config) {
		c.warn(line, "", "%s", said)
	}
}

func (c *checker) merged(merged *nodeconfig.NodeConfig, places []placed, whole, broken bool) {
	spec, of := merged.Spec, merged.Spec.Cluster
	words := nodeconfig.Split(strings.Join(spec.Kubelet.Flags, " "))
	dns, _ := spec.Kubelet.Config["clusterDNS"].([]any)
	c.report.Cluster = Cluster{
		Name: of.Name, Endpoint: of.APIServerEndpoint, CA: encode(of.CertificateAuthority), CIDR: of.CIDR,
		DNSAddresses: dnsOf(show.Each(dns, scalarText), words), Outpost: of.ID,
	}
	c.report.NamedByID = spec.Feature(nodeconfig.InstanceIDNodeName)
	c.tainted(words, kubelet.Taints(spec.Kubelet.Config), func(said string) {
		c.atPath(places, "spec.kubelet.flags", true, said)
	})
	c.kubeletStarts(spec.Kubelet, places)
	if broken {
		return // what seems to be missing may stand where nothing could be read
	}
	if !whole || c.clusterElsewhere {
		c.validate(merged, places, func(field string) bool { return !strings.HasPrefix(field, "spec.cluster.") })
		return
	}
	if of.Name == "" && of.APIServerEndpoint == "" && len(of.CertificateAuthority) == 0 && of.CIDR == "" {
		c.atPath(places, "spec.cluster", false, "is missing; only EKS adds it, for managed node groups without "+
			"an image of their own, and Karpenter, unless amiFamily is Custom")
		return
	}
	c.validate(merged, places, func(string) bool { return true })
}

// validate says what is wrong with merged NodeConfigs; what is missing only
// where that matters.
func (c *checker) validate(merged *nodeconfig.NodeConfig, places []placed, matters func(field string) bool) {
	err := merged.Validate()
	if err == nil {
		return
	}
	for line := range strings.Lines(err.Error()) {
		field, said, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		if matters(field) || !strings.HasPrefix(said, "is missing") {
			c.atPath(places, field, false, said)
		}
	}
}

// flagsOf checks the kubelet's flags of one document, each where it stands.
func (c *checker) flagsOf(p placed, flags []string) {
	for i, flag := range flags {
		if len(nodeconfig.CheckFlags(strings.TrimSpace(flag))) > 0 {
			continue // is reported where the merged document is validated
		}
		path := fmt.Sprintf(flagPath, i)
		line, _ := p.line(path)
		c.kubeletArguments(line, path, nodeconfig.Split(flag))
	}
}

// flagPath is the path of a flag of the kubelet.
const flagPath = "spec.kubelet.flags[%d]"

// atPath reports a problem at a path of merged documents.
func (c *checker) atPath(places []placed, path string, warning bool, said string) {
	in, line, field := c.placeOf(places, path)
	in.either(warning, line, field, said)
}

// placeOf finds a path in the last document that has most of the path. The flags of the
// documents are one list: the path has the index in the list, and field the index in the
// document.
func (c *checker) placeOf(places []placed, path string) (in *checker, line int, field string) {
	deepest, field, at := -1, path, c.at
	var flag int
	_, err := fmt.Sscanf(path, flagPath, &flag)
	for _, p := range places {
		if err == nil {
			path, flag = fmt.Sprintf(flagPath, flag), flag-p.flags
		}
		if there, depth := p.line(path); depth >= deepest {
			line, deepest, field, at = there, depth, path, p.at
		}
	}
	return c.in(at), line, field
}

var placedError = show.Regexp(`^(?:reading the YAML: )?line (\d+): (?:([A-Za-z][A-Za-z0-9_.\[\]/@-]*): )?(.*)$`)

func (c *checker) lines(err error) { c.each(err.Error(), c.fail) }

// each reports the messages of nodeconfig, one on each line of the text.
func (c *checker) each(messages string, report func(line int, field, format string, args ...any)) {
	for text := range strings.Lines(messages) {
		text = strings.TrimSuffix(text, "\n")
		parts := placedError().FindStringSubmatch(text)
		if parts == nil {
			field, said, found := strings.Cut(text, ": ")
			if !found || strings.Contains(field, " ") {
				field, said = "", text
			}
			report(1, field, "%s", said)
			continue
		}
		line, _ := strconv.Atoi(parts[1]) // the expression takes digits only
		report(line, parts[2], "%s", parts[3])
	}
}

// dnsOf returns the addresses of the cluster's DNS that the kubelet gets: those of its flag,
// or else those of its configuration.
func dnsOf(addresses, flags []string) []string {
	for a := range kubelet.Arguments(flags) {
		if a.Flag.Name == "cluster-dns" {
			addresses = strings.Split(a.Value, ",")
		}
	}
	return addresses
}
