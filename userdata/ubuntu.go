package userdata

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// cloudHeader is the first line by which cloud-init knows its configuration.
const cloudHeader = "#cloud-config"

func renderUbuntu(n Node, _ Family) ([]byte, error) {
	text, err := toYAML(struct {
		Commands [][]string `yaml:"runcmd"`
	}{[][]string{append([]string{bootstrapScript}, n.bootstrapArguments()...)}})
	return []byte(cloudHeader + "\n" + text), err
}

func isUbuntu(text string) bool {
	return strings.HasPrefix(firstLine(text), cloudHeader) || hasPart(text, cloudMedia) && !hasPart(text, shellMedia)
}

// cloudFields are the modules' keys that user data for nodes has
// (https://cloudinit.readthedocs.io/en/latest/reference/modules.html).
var cloudFields = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(apt|apt_pipelining|apt_\w+|bootcmd|byobu_by_default|ca_certs|ca-certs|chpasswd|cloud_\w+_modules|datasource|` +
		`device_aliases|disable_ec2_metadata|disable_root|disable_root_opts|disk_setup|fqdn|final_message|fs_setup|groups|growpart|hostname|keyboard|` +
		`locale|locale_configfile|manage_etc_hosts|manage_resolv_conf|merge_how|merge_type|mounts|mount_default_fields|ntp|output|package_\w+|packages|password|phone_home|` +
		`power_state|preserve_hostname|prefer_fqdn_over_hostname|random_seed|resize_rootfs|resolv_conf|rsyslog|runcmd|snap|ssh|ssh_\w+|` +
		`swap|system_info|timezone|updates|users|user|vendor_data|wireguard|write_files|yum_repos|yum_repo_dir|zypper|allow_public_ssh_keys|no_ssh_fingerprints|` +
		`create_hostname_file|autoinstall|ubuntu_advantage|ubuntu_pro|ansible|landscape|lxd|salt_minion|puppet|chef|mcollective|fan|drivers|authkey_hash)$`)
})

func checkUbuntu(c *checker, text string) {
	called := 0
	for _, p := range c.parts(text) {
		c.within(p.Before, func() {
			switch {
			case p.Media == "" || p.Media == cloudMedia:
				called += c.cloudConfig(p.Text, p.Media)
			case p.Media == shellMedia:
				called += c.script(p.Text)
			}
		})
	}
	c.calls(called)
}

// cloudConfig checks a cloud-config and counts the calls of bootstrap.sh; where
// it cannot be read, one is taken for granted.
func (c *checker) cloudConfig(text, media string) int {
	if media == "" && strings.TrimRight(firstLine(text), " \r") != cloudHeader {
		c.fail(1, "", "the first line must be %s and nothing else", cloudHeader)
	}
	if !c.isReadable(text) {
		return 1
	}
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		c.lines(errorOf("reading the YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")))
		return 1
	}
	if len(document.Content) == 0 || document.Content[0].Kind != yaml.MappingNode {
		c.fail(1, "", "a cloud-config is an object with fields such as runcmd")
		return 0
	}
	c.duplicates(document.Content[0])
	called := 0
	top := document.Content[0]
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		if !cloudFields().MatchString(key.Value) {
			c.fail(key.Line, key.Value, "unknown field; cloud-init passes over it")
		}
		if key.Value != "runcmd" && key.Value != "bootcmd" {
			continue
		}
		if value.Kind != yaml.SequenceNode {
			c.fail(value.Line, key.Value, "it must be a list of commands")
			continue
		}
		for _, command := range value.Content {
			called += c.cloudCommand(key.Value, command)
		}
	}
	return called
}

type errorOf string

func (e errorOf) Error() string { return string(e) }

// cloudCommand checks one entry of runcmd: a line for a shell, or a list of
// arguments.
func (c *checker) cloudCommand(field string, n *yaml.Node) int {
	switch n.Kind {
	case yaml.ScalarNode:
		before := n.Line - 1
		if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
			before = n.Line // the text begins on the line after | or >
		}
		called := 0
		c.within(before, func() { called = c.script(n.Value) })
		return called
	case yaml.SequenceNode:
		var words []word
		for _, w := range n.Content {
			if w.Kind != yaml.ScalarNode {
				c.fail(w.Line, field, "an argument must be text")
				return 0
			}
			words = append(words, word{text: w.Value, line: w.Line})
		}
		i := slices.IndexFunc(words, isBootstrap)
		if i < 0 || i > 0 && !runsOthers(words[0].text) {
			return 0
		}
		c.bootstrap(words[i].line, words[i+1:])
		return 1
	default:
		c.fail(n.Line, field, "a command must be text or a list")
		return 0
	}
}
