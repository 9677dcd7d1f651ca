package userdata

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// cloudHeader is the first line by which cloud-init knows its configuration.
const cloudHeader = "#cloud-config"

func renderUbuntu(n Node, _ Family) ([]byte, error) {
	if err := n.withoutBootstrapSh(); err != nil {
		return nil, err
	}
	args, err := n.bootstrapArguments()
	if err != nil {
		return nil, err
	}
	type file struct {
		Path        string     `yaml:"path"`
		Content     *yaml.Node `yaml:"content"`
		Permissions string     `yaml:"permissions,omitempty"`
	}
	var document struct {
		Files    []file `yaml:"write_files,omitempty"`
		Commands []any  `yaml:"runcmd"`
	}
	files, commands := n.files()
	for _, f := range files {
		document.Files = append(document.Files, file{Path: f.path, Content: literal(f.text)})
	}
	script := func(name string, texts []string) {
		for i, part := range scripts(texts) {
			f := file{fmt.Sprintf("/var/lib/eksnode/%s-%d.sh", name, i+1), literal(part.Content), "0700"}
			document.Files = append(document.Files, f)
			document.Commands = append(document.Commands, []string{f.Path})
		}
	}
	for _, c := range commands {
		document.Commands = append(document.Commands, strings.Fields(c))
	}
	script("pre", n.Pre)
	document.Commands = append(document.Commands, append([]string{bootstrapScript}, args...))
	script("post", n.Post)
	text, err := toYAML(document)
	if text = cloudHeader + "\n" + text; err != nil || len(n.Parts) == 0 {
		return []byte(text), err
	}
	return message(append(slices.Clone(n.Parts), Part{ContentType: cloudMedia, Content: text})...), nil
}

func isUbuntu(text string) bool {
	switch mediaOf(strings.TrimPrefix(text, byteOrderMark)) {
	case "", shellMedia:
		return hasPart(text, cloudMedia, archiveMedia, jinjaMedia, includeMedia, onceMedia, boothookMedia) && !hasPart(text, shellMedia)
	default:
		return true
	}
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

func checkUbuntu(c *checker, text string) { checkAL2(c, text) }

// cloudConfig checks a cloud-config and counts the calls of bootstrap.sh. A
// cloud-config that is not readable counts as one call.
func (c *checker) cloudConfig(text, media string) int {
	if media == "" && strings.TrimRight(firstLine(text), " \r") != cloudHeader {
		c.fail(1, "", "the first line must be %s and nothing else", cloudHeader)
	}
	top, called := c.topNode(text, yaml.MappingNode, "a cloud-config is an object with fields such as runcmd")
	if top == nil {
		return called
	}
	c.duplicates(top)
	if files := child(top, "write_files"); files != nil {
		c.writeFiles(files)
	}
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		if !cloudFields().MatchString(key.Value) {
			c.fail(key.Line, key.Value, "unknown field; cloud-init passes over it")
		}
		if key.Value == "runcmd" || key.Value == "bootcmd" {
			called += c.cloudCommands(key.Value, value)
		}
	}
	return called + c.nodeConfigFiles()
}

// cloudCommands checks runcmd or bootcmd. cloud-init makes one script of them.
func (c *checker) cloudCommands(field string, list *yaml.Node) int {
	if list.Kind != yaml.SequenceNode {
		c.fail(list.Line, field, "it must be a list of commands")
		return 0
	}
	var whole strings.Builder
	single := true
	for _, command := range list.Content {
		if command.Kind != yaml.ScalarNode {
			whole.WriteString(":\n")
			continue
		}
		whole.WriteString(command.Value + "\n")
		if _, err := readShell(command.Value, "sh"); err != nil {
			single = false
		}
	}
	if _, err := readShell(whole.String(), "sh"); err == nil && !single { // a command goes on in the next entry
		return mentions(whole.String())
	}
	called := 0
	for _, command := range list.Content {
		called += c.cloudCommand(field, command)
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
		called := 0
		c.in(c.scalar(n), func() { called = c.shell(n.Value, "sh") })
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
		switch {
		case len(words) == 0:
			return 0
		case joinsOtherwise(words):
			return 1
		default:
			return c.command(words)
		}
	default:
		c.fail(n.Line, field, "a command must be text or a list")
		return 0
	}
}
