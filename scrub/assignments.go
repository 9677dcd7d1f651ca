package scrub

import (
	"path"
	"slices"
	"strings"
)

// sources are the ends of files that are programs or samples. There, a name
// before a value is often a variable or an explanation.
var sources = []string{
	"py", "pyc", "js", "mjs", "cjs", "ts", "go", "c", "h", "cc", "cpp", "hpp", "rs", "java", "rb", "pl", "pm", "lua", "css", "html", "htm", "svg", "md", "rst", "po", "pot",
	"tmpl", "tpl", "j2", "erb", "example", "sample", "dist", "template", "map", "vim", "el", "awk", "tcl", "proto", "scm", "tex", "adoc", "log", "te", "schema", "rules", "csv",
}

// settings selects files that may be configuration.
func settings(name string) bool {
	end := strings.TrimPrefix(path.Ext(name), ".")
	return !slices.Contains(sources, strings.ToLower(end)) && !strings.HasSuffix(name, ".schema.json")
}

// samples selects files that are no samples.
func noSamples(name string) bool {
	return !kept([]string{"*.example", "*.sample", "*.dist", "*.tmpl", "*.tpl", "*.j2", "*.md", "*.rst", "*.html", "*.po", "*-example.*", "*.example.*", "*.sample.*"}, path.Base(name))
}

const (
	// passwordNames end the names of settings that have a password.
	passwordNames = `(?:passw(?:or)?d|passphrase|(?:[_.-]|\b|db|ssh|auth|root|user|smtp|mail|bind|sasl)pass|pwd|bindpw|rootpw|authtok)(?:_?(?:plain|value|text|b64|base64|\d+))?`
	// keyNames end the names of settings that have a random value.
	keyNames = `(?:secret|token|(?:api|access|account|auth|private|encryption|signing|secret|storage|admin|master|service|subscription|shared|blowfish)[_-]?(?:key|secret)|key[_-]?secret|secret[_-]?key[_-]?base|secret[_-]?id|app[_-]?key|authtoken)(?:_?(?:value|key|plain|b64|base64|\d+))?`
	// before stands before the name of a setting.
	before = `(?i)^[^#;]*?(?:^|[\s"'{,;(\[$]|[\w.-])`
	// sets stands between the name of a setting and its value.
	sets = `["'\])]*\s*(?:=>|:=|\+=|\?=|=|:)\s*`
)

// assignmentPatterns are settings that are recognized by their names, with any
// value that is no placeholder.
func assignmentPatterns() []pattern {
	passwordHints := []string{"passw", "passphrase", "pass", "pwd", "bindpw", "rootpw", "authtok"}
	keyHints := []string{"secret", "token", "_key", "-key", "apikey", "accesskey", "accountkey", "authkey", "privatekey", "encryptionkey", "signingkey", "storagekey", "masterkey", "adminkey", "servicekey", "sharedkey", "appkey"}
	return []pattern{
		{kind: "a password", text: true, general: true, hints: passwordHints, in: settings, value: 1,
			re: expression(before + passwordNames + sets + `(?:"([^"]{5,200})"|'([^']{5,200})')`)},
		{kind: "a password", text: true, general: true, hints: passwordHints, in: settings, value: 1,
			re: expression(before + passwordNames + `["'\])]*\s*=\s*([^\s"'#,;\[{(|>&=][^\s"',;]{4,200})`)},
		{kind: "a password", text: true, general: true, hints: passwordHints, in: settings, value: 1,
			re: expression(before + passwordNames + `["']?\s*:\s+([^\s"'#,;\[{(|>&][^\s"',;]{4,200})\s*(?:[,}\]].*|(?:#.*)?$)`)},
		{kind: "a password", text: true, general: true, hints: passwordHints, in: noSamples, value: 1, digit: true,
			re: expression(`(?i)` + passwordNames + sets + `(?:"([^"\s]{6,200})"|'([^'\s]{6,200})')`)},
		{kind: "a password", text: true, general: true, hints: passwordHints, in: noSamples, value: 1, digit: true,
			re: expression(`(?i)["']` + `[\w.-]*` + passwordNames + `["']\s*,\s*["']([^"'\s]{6,200})["']`)}, // define('DB_PASSWORD', …)
		{kind: "a secret of a setting", text: true, general: true, hints: keyHints, in: noSamples, value: 1, digit: true,
			re: expression(`(?i)` + keyNames + sets + `(?:"([^"\s]{12,400})"|'([^'\s]{12,400})')`)},
		{kind: "a secret of a setting", text: true, general: true, hints: keyHints, in: settings, value: 1, digit: true,
			re: expression(`(?i)^[^#;]*?` + keyNames + sets + `([^\s"'#,;\[{(|>&][^\s"',;]{11,400})`)},
		{kind: "a secret of a setting", text: true, general: true, hints: []string{"</"}, in: noSamples, value: 1,
			re: expression(`(?i)<(?:[\w:.-]*(?:` + passwordNames + `|` + keyNames + `))(?:\s[^>]*)?>\s*([^<\s]{6,400})\s*</`)},
		{kind: "a secret of a setting", text: true, general: true, hints: []string{"</name>"}, in: noSamples,
			re: expression(`(?i)<name>[^<]*(?:` + passwordNames + `|` + keyNames + `|[._-]key)</name>`), then: expression(`^\s*<value>[^<\s]{6,400}</value>`)}, // Hadoop
		{kind: "a secret of a setting", text: true, general: true, hints: append(slices.Clone(passwordHints), keyHints...), in: noSamples,
			re:   expression(`(?i)"[\w.-]*(?:` + passwordNames + `|` + keyNames + `)"\s*:\s*\{`),
			then: expression(`^\s*("\w+"\s*:\s*[^,{}]*,\s*)*"value"\s*:\s*"[^"\s]{5,}"`)}, // Terraform: outputs in a state
		{kind: "a secret of a setting", text: true, general: true, hints: []string{"value="}, in: noSamples, value: 1, digit: true,
			re: expression(`(?i)(?:name|key)=["'][\w:.-]*(?:` + passwordNames + `|` + keyNames + `)["']\s+value=["']([^"'\s]{6,400})["']`)},
		{kind: "a password", text: true, general: true, hints: append(slices.Clone(passwordHints), keyHints...), value: 1, // without a sign between
			in: either(below("/etc", "/opt", "/fluent-bit"), named(".msmtprc")),
			re: expression(`(?i)^\s*(?:password|\w+_passw(?:or)?d|passphrase|aws_sec_key|shared_key|splunk_token|license_?key|api_?key|auth_pass|bindpw|rootpw|ldap_default_authtok|requirepass|masterauth|secret)\s+["']?([^\s"'=:\[]{5,200})["']?\s*;?\s*$`)},
	}
}

// placeholders are parts of values that are explanations, variables or
// references to a place with the secret.
var placeholders = []string{
	"example", "placeholder", "changeme", "change_me", "change-me", "redacted", "your-", "your_", "yourpass", "yoursecret", "yourtoken", "xxxx", "****", "....", "____", "dummy",
	"${", "$(", "{{", "}}", "<%", "%>", "()", "->", "::", "arn:aws", "secretsmanager", "vault:", "op://", "enc[", "file:", "env:", "ssm:",
}

// words are values that are no secrets.
var words = []string{
	"password", "passwd", "passphrase", "secret", "token", "string", "value", "required", "optional", "disabled", "enabled", "undefined", "default", "prompt", "stdin", "invalid", "expired",
	"false", "never", "always", "integer", "boolean", "object", "number", "sufficient", "requisite", "include", "unset", "empty", "hashed", "plain", "plaintext", "files", "service", "systemd", "yescrypt",
	"sha512", "sha256", "bcrypt", "pam_unix.so", "username", "unknown", "mypassword", "nopassword", "no-password", "define", "undef", "validate", "scram-sha-256", "peer", "trust", "opaque",
}

// roots begin the names of variables in several languages.
var roots = []string{"var", "local", "module", "data", "each", "self", "this", "config", "settings", "env", "process", "os", "secrets", "steps", "inputs", "vars", "values", "params", "args", "options", "request", "node", "ansible"}

// plausible reports whether a value may be a secret: no variable, no path, no
// word of a manual.
func plausible(value string) bool {
	small := strings.ToLower(strings.TrimRight(value, ".,;)]}>\\"))
	if len(small) < 3 || strings.ContainsAny(small[:1], "$%<{(/~@*&|!\\`=[>") && !strings.HasPrefix(small, "!!") {
		return false
	}
	if strings.Trim(small, small[:1]) == "" || slices.Contains(words, small) {
		return false
	}
	if strings.ContainsRune(small, ' ') && !strings.ContainsAny(small, "0123456789") {
		return false
	}
	if strings.HasPrefix(small, "./") || strings.HasPrefix(small, "../") || strings.HasPrefix(small, "-") && !strings.ContainsAny(small, "0123456789") {
		return false
	}
	for _, p := range placeholders {
		if strings.Contains(small, p) {
			return false
		}
	}
	return !isReference(small)
}

// isReference reports whether a value names another place: a file, an address,
// or a field of a program.
func isReference(small string) bool {
	if strings.HasPrefix(small, "http") && strings.Contains(small, "://") || strings.Contains(small, "[") && strings.HasSuffix(small, "]") {
		return true
	}
	if kept([]string{"*.pem", "*.key", "*.crt", "*.json", "*.yaml", "*.yml", "*.conf", "*.txt", "*.so", "*.service", "*.sh", "*.py"}, path.Base(small)) {
		return true
	}
	before, after, dotted := strings.Cut(small, ".")
	if dotted && slices.Contains(roots, before) {
		return true
	}
	if !dotted || strings.ContainsAny(small, "0123456789!@#%^*+=/") {
		return false
	}
	return before != "" && after != "" // var.password, self.token
}
