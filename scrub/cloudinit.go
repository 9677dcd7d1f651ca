package scrub

import (
	"bytes"
	"cmp"
	"path"
	"slices"

	"go.yaml.in/yaml/v3"
)

// cloudInitUnits are the units in which cloud-init creates SSH host keys.
var cloudInitUnits = []string{"cloud-init.service", "cloud-init-network.service"}

// kernelArguments are the files with the kernel's arguments for the next boots.
var kernelArguments = []string{
	"/etc/default/grub", "/etc/default/grub.d/*.cfg", "/etc/kernel/cmdline", "/etc/cmdline", "/usr/lib/kernel/cmdline",
	"/boot/grub/grub.cfg", "/boot/grub2/grub.cfg", "/boot/grub/menu.lst", "/boot/grub*/grubenv", "/boot/efi/EFI/*/grub.cfg", "/boot/loader/entries/*.conf", "/boot/efi/loader/entries/*.conf", "/efi/loader/entries/*.conf",
}

var disabledByKernel = expression(`(?m)^[^#]*\bcloud-init=disabled\b`)

// cloudInitOff returns why cloud-init creates no SSH host keys at the next boot,
// or "". The ways are those of cloud-init's documentation: a file, an argument
// of the kernel, units that are off, and a configuration without keys.
func cloudInitOff(d *draft) string {
	const file = "/etc/cloud/cloud-init.disabled"
	if d.exists(file) {
		return file + " exists"
	}
	if name := fileWith(d, kernelArguments, matches(disabledByKernel)); name != "" {
		return name + " has cloud-init=disabled"
	}
	if name := fileWith(d, []string{"/etc/cloud/ds-identify.cfg"}, matches(identifyOff)); name != "" {
		return name + " has policy: disabled"
	}
	return cmp.Or(cloudInitUnitsOff(d), cloudInitWithoutKeys(d))
}

var identifyOff = expression(`(?m)^\s*policy:\s*["']?disabled`)

// fileWith returns the first regular file of some patterns whose content
// matches.
func fileWith(d *draft, patterns []string, so func([]byte) bool) (found string) {
	d.texts(d.known(patterns...), func(name string, text []byte) {
		if found == "" && so(text) {
			found = name
		}
	})
	return found
}

// cloudInitUnitsOff returns which unit of cloud-init is masked or disabled.
func cloudInitUnitsOff(d *draft) string {
	masks := []string{"/etc/systemd/system-generators/cloud-init-generator"}
	for _, unit := range append([]string{"cloud-init.target", "cloud-init-main.service"}, cloudInitUnits...) {
		masks = append(masks, "/etc/systemd/system/"+unit)
	}
	for _, name := range masks {
		if target, err := d.h.Files.ReadlinkIfPossible(name); err == nil && target == "/dev/null" {
			return path.Base(name) + " is masked"
		}
	}
	for _, unit := range cloudInitUnits {
		if isDisabled(d, unit) {
			return unit + " is disabled"
		}
	}
	return ""
}

// isDisabled reports whether a unit has instructions to be enabled, and is not.
func isDisabled(d *draft, unit string) bool {
	files := []string{"/etc/systemd/system/" + unit, "/usr/lib/systemd/system/" + unit, "/lib/systemd/system/" + unit}
	if fileWith(d, files, func(text []byte) bool { return bytes.Contains(text, []byte("[Install]")) }) == "" {
		return false
	}
	links := d.known("/etc/systemd/system/*.*s/"+unit, "/usr/lib/systemd/system/*.*s/"+unit,
		"/lib/systemd/system/*.*s/"+unit)
	return d.err == nil && len(links) == 0
}

// cloudInitWithoutKeys returns why cloud-init's configuration creates no keys:
// its modules lack ssh, or it has no types of keys. Later files win.
func cloudInitWithoutKeys(d *draft) string {
	var config struct {
		Modules *[]any `yaml:"cloud_init_modules"`
		Types   *[]any `yaml:"ssh_genkeytypes"`
	}
	files := append([]string{"/etc/cloud/cloud.cfg"}, d.known("/etc/cloud/cloud.cfg.d/*.cfg")...)
	d.texts(files, func(_ string, text []byte) {
		_ = yaml.Unmarshal(text, &config) // cloud-init skips files that are no YAML, too
	})
	switch {
	case config.Types != nil && len(*config.Types) == 0:
		return "its ssh_genkeytypes is empty"
	case config.Modules != nil && !slices.ContainsFunc(*config.Modules, isSSHModule):
		return "its cloud_init_modules lack ssh"
	}
	return ""
}

// isSSHModule reports whether an entry of cloud_init_modules is ssh, alone or in
// a list with its frequency.
func isSSHModule(module any) bool {
	if list, ok := module.([]any); ok && len(list) > 0 {
		module = list[0]
	}
	return module == "ssh"
}

// cloudPatterns are keys of clouds and clusters, and tokens, webhooks and files
// of programs with a documented form. Each row names its source.
func cloudPatterns() []pattern {
	return []pattern{
		{kind: "an Azure shared access key", hints: []string{"sharedaccesskey= "}, re: expression(`(?i)SharedAccessKey=[A-Za-z0-9+/]{43}=`)},                                                                                                // Azure: Service Bus, Event Hubs, IoT
		{kind: "an Azure shared access signature", text: true, hints: []string{"sig="}, re: expression(`[?&;]sig=[A-Za-z0-9%+/_-]{32,}`)},                                                                                                   // Azure Storage: SAS; Logic Apps
		{kind: "an Azure storage key", text: true, hints: []string{"storage", "account"}, re: expression(`(?i)(storage|account|azure)[\w.-]*key["']?\s*[:=]\s*["']?[A-Za-z0-9+/]{86}==`)},                                                   // Azure Storage: account keys
		{kind: "an Azure token", text: true, general: true, hints: []string{"refreshtoken", "refresh_token", "accesstoken", "access_token"}, re: expression(`(?i)(refresh|access)_?token["']?\s*[:=]\s*["']?[\w./+~=-]{30,}`), digit: true}, // Azure: accessTokens.json; OAuth 2.0
		{kind: "a Google OAuth token", hints: []string{"ya29. ", "gocspx- ", "1//0 "}, re: expression(`\bya29\.[\w-]{20,}|\bGOCSPX-[\w-]{20,}|\b1//0[\w-]{30,}`)},                                                                           // Google: OAuth 2.0
		{kind: "a Google storage key", hints: []string{"goog1 "}, re: expression(`\bGOOG1[0-9A-Z]{19,}`), run: 19},                                                                                                                          // Google Cloud Storage: HMAC keys
		{kind: "a Discord webhook", hints: []string{"/api/webhooks/ "}, re: expression(`discord(app)?\.com/api/webhooks/\d{15,20}/[\w-]{40,}`)},                                                                                             // Discord: webhooks
		{kind: "a Discord token", text: true, general: true, hints: []string{"discord", "bot"}, re: expression(`\b[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,45}`)},                                                                              // Discord: bots
		{kind: "a Microsoft Teams webhook", hints: []string{"/incomingwebhook/ "}, re: expression(`(?i)outlook\.office(365)?\.com/webhook/[0-9a-z@-]{50,}/IncomingWebhook/[0-9a-z]{20,}`)},                                                  // Microsoft Teams: connectors
		{kind: "a webhook", hints: []string{"hooks.zapier.com ", "chat.googleapis.com ", "hooks.chime.aws ", "maker.ifttt.com ", "alert.victorops.com ", "events.pagerduty.com/integration ", "open.feishu.cn ", "oapi.dingtalk.com ", "qyapi.weixin "},
			re: expression(`hooks\.zapier\.com/hooks/catch/\d+/\w{5,}|chat\.googleapis\.com/v1/spaces/[\w-]+/messages\?key=[\w-]{20,}|hooks\.chime\.aws/incomingwebhooks/[0-9a-f-]{36}\?token=\S{20,}|maker\.ifttt\.com/trigger/\w+/(json/)?with/key/[\w-]{10,}|alert\.victorops\.com/integrations/\S+/alert/[0-9a-f-]{36}|events\.pagerduty\.com/integration/\w{20,}|open\.feishu\.cn/open-apis/bot/v2/hook/[0-9a-f-]{36}|oapi\.dingtalk\.com/robot/send\?access_token=[0-9a-f]{64}|qyapi\.weixin\.qq\.com/cgi-bin/webhook/send\?key=[0-9a-f-]{36}`)}, // the issuers: incoming webhooks
		{kind: "a Telegram token", hints: []string{":aa "}, re: expression(`\b\d{8,10}:AA[A-Za-z0-9_-]{32,33}\b`), run: 32},                                                                                                                                                           // Telegram: bots
		{kind: "a PagerDuty key", text: true, general: true, hints: []string{"pagerduty", "pdus+", "token=u+", "token token="}, re: expression(`(?i)\bpdus\+[\w-]{20,}|pagerduty[\w."' :=-]*["'\s:=](u\+)?[\w+-]{20,}|token=u?\+?[\w-]{18,}`), digit: true},                           // PagerDuty: API keys
		{kind: "a Bitbucket token", hints: []string{"atbb "}, re: expression(`\bATBB[A-Za-z0-9]{28,}`), run: 28},                                                                                                                                                                      // Bitbucket: app passwords
		{kind: "a Vault unseal key", text: true, hints: []string{"unseal key", "recovery key", "unseal_keys", "root token"}, re: expression(`(?i)(unseal|recovery) key \d+:\s*[A-Za-z0-9+/=]{32,}|unseal_keys_(b64|hex)|root token:\s*\S{20,}`)},                                      // Vault: operator init
		{kind: "a key of Consul or Nomad", text: true, hints: []string{"encrypt", "secretid"}, re: expression(`(?i)\bencrypt["']?\s*[=:]\s*["'][A-Za-z0-9+/]{22,43}={0,2}["']|\bsecretid["']?\s*[=:]\s*["']?[0-9a-f]{8}-[0-9a-f-]{27}`)},                                              // Consul: gossip encryption, ACL tokens
		{kind: "a Stripe key", hints: []string{"whsec_ "}, re: expression(`\bwhsec_[A-Za-z0-9+/=]{30,}`), run: 30},                                                                                                                                                                    // Stripe: webhooks
		{kind: "a key of a language model's service", hints: []string{"sk-or- ", "gsk_ ", "xai- ", "r8_ ", "sk- "}, run: 20, digit: true, re: expression(`\bsk-or-v1-[0-9a-f]{64}|\bgsk_[A-Za-z0-9]{50,}|\bxai-[A-Za-z0-9]{70,}|\br8_[A-Za-z0-9]{37}\b|\bsk-[A-Za-z0-9]{32,}\b`)},     // OpenRouter, Groq, xAI, Replicate, OpenAI: API keys
		{kind: "a Mailgun key", text: true, hints: []string{"key-"}, re: expression(`\bkey-[0-9a-f]{32}\b`), run: 32},                                                                                                                                                                 // Mailgun: API keys
		{kind: "a Mailchimp key", text: true, hints: []string{"-us"}, re: expression(`\b[0-9a-f]{32}-us\d{1,2}\b`)},                                                                                                                                                                   // Mailchimp: API keys
		{kind: "a SonarQube token", hints: []string{"squ_ ", "sqp_ ", "sqa_ "}, re: expression(`\bsq[upa]_[0-9a-f]{40}`), run: 40},                                                                                                                                                    // SonarQube: user tokens
		{kind: "a token of a cluster", text: true, hints: []string{"k10", "token-secret", "certificate-key", "certificatekey", "node-token"}, re: expression(`\bK10[0-9a-f]{40,}::\S+|token-secret["']?\s*:\s*["']?[a-z0-9]{16}|certificate-?[kK]ey["']?[=:\s]\s*["']?[0-9a-f]{64}`)}, // k3s, kubeadm
		{kind: "a token of Docker Swarm", hints: []string{"swmtkn- "}, re: expression(`\bSWM(TKN|KEY)-1-[\w/+-]{40,}`)},                                                                                                                                                               // Docker: swarm join-token
		{kind: "a token of Docker Swarm", hints: []string{"swmkey- "}, re: expression(`\bSWMKEY-1-[\w/+]{40,}`)},                                                                                                                                                                      // Docker: swarm unlock-key
		{kind: "a Tailscale key", hints: []string{"privkey: "}, re: expression(`\bprivkey:[0-9a-f]{64}`)},                                                                                                                                                                             // Tailscale: state file
		{kind: "a ZeroTier identity", text: true, hints: []string{":0:"}, re: expression(`^[0-9a-f]{10}:0:[0-9a-f]{128}:[0-9a-f]{128}`), run: 100},                                                                                                                                    // ZeroTier: identity.secret
		{kind: "a token of Cloudflare Tunnel", hints: []string{"eyjhijoi ", "tunnelsecret "}, re: expression(`\beyJhIjoi[A-Za-z0-9+/=_-]{60,}|"TunnelSecret"\s*:\s*"[A-Za-z0-9+/=]{20,}"`)},                                                                                           // Cloudflare: tunnels
		{kind: "an npm token", text: true, hints: []string{"_auth", "_password"}, re: expression(`(^|:|\s)_(auth|password)\s*=\s*["']?[^\s$"'{]{8,}`)},                                                                                                                                // npm: .npmrc
		{kind: "a key of Kaggle", text: true, hints: []string{`"key"`}, re: expression(`"key"\s*:\s*"[0-9a-f]{32}"`), digit: true},                                                                                                                                                    // Kaggle: kaggle.json
		{kind: "an access token of Composer", text: true, hints: []string{"-oauth", "http-basic"}, re: expression(`"(github|gitlab|bitbucket)-oauth"`), then: expression(`^\s*:\s*\{[^}]*:\s*"[\w-]{20,}"`)},                                                                          // Composer: auth.json
		{kind: "a token of crates.io", hints: []string{"cio "}, re: expression(`\bcio[A-Za-z0-9]{32}\b`), run: 32, digit: true},                                                                                                                                                       // Cargo: credentials.toml
		{kind: "a token of a cloud", hints: []string{"sbp_ ", "nfp_ ", "figd_ ", "cfpat- ", "napi_ ", "phx_ ", "rnd_ ", "essu_ ", "pat-na1- ", "pat-eu1- ", "dop_ ", "lip_ ", "atlasv1 ", "vercel_ ", "hcaik_ ", "hcxik_ ", "snyk_ ", "jfrt@ "},
			re: expression(`\bsbp_[0-9a-f]{40}|\bnfp_[A-Za-z0-9]{36}|\bfigd_[\w-]{40}|\bCFPAT-[\w-]{43}|\bnapi_[a-z0-9]{60,}|\bphx_[A-Za-z0-9]{40,}|\brnd_[A-Za-z0-9]{28,}|\bessu_[\w=]{40,}|\bpat-(na|eu)1-[0-9a-f-]{36}|\bvercel_[A-Za-z0-9_]{24,}|\bhc[ax]ik_[a-z0-9]{50,}`)}, // Supabase, Netlify, Figma, Contentful, Neon, PostHog, Render, Elastic, HubSpot, Vercel, Honeycomb
		{kind: "a private key of SSH", text: true, hints: []string{"begin ssh2 encrypted private key"}, re: expression(`---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----`)}, // RFC 4716
		{kind: "a private key of minisign", hints: []string{"encrypted secret key ", "signify secret key "}, re: expression(`^untrusted comment: .*secret key`)},      // minisign, signify
		{kind: "a private key of GnuPG", text: true, hints: []string{"key: ("}, re: expression(`^Key: \((protected-)?private-key`)},                                   // GnuPG: agent/keyformat.txt
		{kind: "a private key", text: true, hints: []string{"<rsakeyvalue>"}, re: expression(`<RSAKeyValue>`), then: expression(`<D>[A-Za-z0-9+/=\s]{40,}</D>`)},      // XML Signature
		{kind: "a wireless network's key", text: true, hints: []string{"psk"}, re: expression(`^\s*psk\s*=\s*("[^"]{8,63}"|[0-9a-f]{64})\s*$`)},                       // wpa_supplicant.conf(5)
		{kind: "a key of an NTP server", text: true, hints: []string{"md5", "sha1", "sha256", "sha512", "aes128", "aes256", "aes128cmac"}, in: named("*.keys", "chrony.keys", "ntp.keys", "keys"),
			re: expression(`(?i)^\s*\d+\s+(MD5|M|SHA\d+|AES\d+\w*)\s+\S{4,}`)}, // chrony.conf(5), ntp.keys(5)
		{kind: "a password of netrc", text: true, hints: []string{"machine"}, re: expression(`^\s*machine\s+\S+\s*$`), then: expression(`^(\s+(login|account)\s+\S+)*\s+password\s+\S+`)}, // netrc(5)
		{kind: "a password of PostgreSQL", text: true, hints: []string{":5432:"}, re: expression(`^[^#\s:]+:5432:[^:\s]+:[^:\s]+:[^\s:]{3,}$`)},                                           // libpq: the password file
	}
}

func namedPatterns() []pattern {
	return []pattern{
		{kind: "a password of PostgreSQL", text: true, in: named("*pgpass*", "pgpass.conf"), re: expression(`^[^#\s:]+:(\d+|\*):[^:\s]+:[^:\s]+:[^\s:]{3,}$`)},
		{kind: "a password of Postfix", text: true, in: named("sasl_passwd*", "sasl-passwd*", "passwd.client"), re: expression(`^[^#\s]\S*\s+[^\s:]+:[^\s:]{3,}`)},
		{kind: "a password of curl", text: true, in: named(".curlrc", "_curlrc", "curlrc"), re: expression(`(?i)^\s*-{0,2}(?:u|user|proxy-user|oauth2-bearer)[\s=:]+["']?[^\s"'#]{3,}`)},
		{kind: "a password of PPP", text: true, in: named("chap-secrets", "pap-secrets"), re: expression(`^[^#\s]\S*\s+\S+\s+["']?[^\s"'*]{3,}`)},
		{kind: "a password of rsync or WebDAV", text: true, in: either(named("rsyncd.secrets", "*.secrets"), below("/etc/davfs2")), re: expression(`^[\w.-]+:[^\s:]{3,}$|^https?://\S+\s+\S+\s+\S{3,}`)},
		{kind: "a password's hash", text: true, in: named("*htpasswd*", "*.htpasswd"), re: expression(`^[\w.@-]+:[./A-Za-z0-9]{13}$`)},
		{kind: "a password of an Ansible vault", in: named(".vault_pass*", ".vault-pass*", "vault_pass*", "vault-pass*", "vaultpass*", "*.vault_pass", ".ansible_vault*", ".ansible-vault*", "ansible_vault_pass*", "ansible-vault-pass*")},
		{kind: "a cookie of Erlang", in: named(".erlang.cookie")},
		{kind: "a credential of systemd", in: below("/etc/credstore", "/usr/lib/credstore", "/usr/local/lib/credstore")},
		{kind: "a shared key", in: func(name string) bool {
			return kept([]string{"/etc/corosync/authkey", "/etc/pacemaker/authkey", "/etc/munge/munge.key", "/etc/ceph/*.keyring"}, name)
		}},
	}
}
