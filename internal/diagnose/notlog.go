package diagnose

import (
	"bytes"
	"path"
	"slices"
	"strings"
)

// Archives of logs also have configuration, documentation and the output of commands.
// Such files contain the words of causes without being evidence.

var (
	// notLogs are the extensions of files that are no logs.
	notLogs = []string{
		".yaml", ".yml", ".toml", ".conf", ".cfg", ".ini", ".service", ".timer", ".socket", ".network", ".netdev", ".link", ".repo", ".rules",
		".md", ".html", ".svg", ".css", ".js", ".py", ".sh", ".ps1", ".pem", ".crt", ".key", ".pub",
	}
	// notLogEnds are the ends of names that the EKS log collector and sosreport give
	// to configuration and lists.
	notLogEnds = []string{"_service.txt", "-config.txt", "-plugins.txt", "pkglist.txt", "sysctl_all.txt", "kubeconfig"}
	// notLogFolders are folders of a machine that have no logs.
	notLogFolders = []string{"etc", "usr", "proc", "sys", "boot"}
)

// isNotLog says whether a file in a folder or an archive is no log.
func isNotLog(name string, head []byte) bool {
	name = strings.ToLower(strings.ReplaceAll(name, `\`, "/"))
	parts := strings.Split(path.Dir(name), "/")
	base := path.Base(name)
	switch {
	case slices.ContainsFunc(parts, func(part string) bool { return slices.Contains(notLogFolders, part) }):
		return true
	case strings.Contains("/"+name, "/var/lib/cloud/"):
		return true
	case slices.ContainsFunc(notLogEnds, func(end string) bool { return strings.HasSuffix(base, end) }):
		return true
	case path.Ext(base) == ".json":
		return !slices.ContainsFunc(wrappers, func(key string) bool { return bytes.Contains(head, []byte(`"`+key+`"`)) })
	}
	return slices.Contains(notLogs, path.Ext(base))
}
