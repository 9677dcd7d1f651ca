package secrets

import (
	"regexp"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// cloudPatterns are keys of clouds and clusters, and tokens, webhooks and files
// of programs with a documented form. Each row names its source.
func cloudPatterns() []Pattern {
	return []Pattern{
		{Kind: "an Azure shared access key", Hints: []string{"sharedaccesskey= "}, Re: rule.Expression(`(?i)SharedAccessKey=[A-Za-z0-9+/]{43}=`)},                                                                                                // Azure: Service Bus, Event Hubs, IoT
		{Kind: "an Azure shared access signature", text: true, Hints: []string{"sig="}, Re: rule.Expression(`[?&;]sig=[A-Za-z0-9%+/_-]{32,}`)},                                                                                                   // Azure Storage: SAS; Logic Apps
		{Kind: "an Azure storage key", text: true, Hints: []string{"storage", "account"}, Re: rule.Expression(`(?i)(storage|account|azure)[\w.-]*key["']?\s*[:=]\s*["']?[A-Za-z0-9+/]{86}==`)},                                                   // Azure Storage: account keys
		{Kind: "an Azure token", text: true, general: true, Hints: []string{"refreshtoken", "refresh_token", "accesstoken", "access_token"}, Re: rule.Expression(`(?i)(refresh|access)_?token["']?\s*[:=]\s*["']?[\w./+~=-]{30,}`), digit: true}, // Azure: accessTokens.json; OAuth 2.0
		{Kind: "a Google OAuth token", Hints: []string{"ya29. ", "gocspx- ", "1//0 "}, Re: rule.Expression(`\bya29\.[\w-]{20,}|\bGOCSPX-[\w-]{20,}|\b1//0[\w-]{30,}`)},                                                                           // Google: OAuth 2.0
		{Kind: "a Google storage key", Hints: []string{"goog1 "}, Re: rule.Expression(`\bGOOG1[0-9A-Z]{19,}`), run: 19},                                                                                                                          // Google Cloud Storage: HMAC keys
		{Kind: "a Discord webhook", Hints: []string{"/api/webhooks/ "}, Re: rule.Expression(`discord(app)?\.com/api/webhooks/\d{15,20}/[\w-]{40,}`)},                                                                                             // Discord: webhooks
		{Kind: "a Discord token", text: true, general: true, Hints: []string{"discord", "bot"}, Re: rule.Expression(`\b[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,45}`)},                                                                              // Discord: bots
		{Kind: "a Microsoft Teams webhook", Hints: []string{"/incomingwebhook/ "}, Re: rule.Expression(`(?i)outlook\.office(365)?\.com/webhook/[0-9a-z@-]{50,}/IncomingWebhook/[0-9a-z]{20,}`)},                                                  // Microsoft Teams: connectors
		{Kind: "a webhook", Hints: []string{"hooks.zapier.com ", "chat.googleapis.com ", "hooks.chime.aws ", "maker.ifttt.com ", "alert.victorops.com ", "events.pagerduty.com/integration ", "open.feishu.cn ", "oapi.dingtalk.com ", "qyapi.weixin "},
			Re: rule.Expression(`hooks\.zapier\.com/hooks/catch/\d+/\w{5,}|chat\.googleapis\.com/v1/spaces/[\w-]+/messages\?key=[\w-]{20,}|hooks\.chime\.aws/incomingwebhooks/[0-9a-f-]{36}\?token=\S{20,}|maker\.ifttt\.com/trigger/\w+/(json/)?with/key/[\w-]{10,}|alert\.victorops\.com/integrations/\S+/alert/[0-9a-f-]{36}|events\.pagerduty\.com/integration/\w{20,}|open\.feishu\.cn/open-apis/bot/v2/hook/[0-9a-f-]{36}|oapi\.dingtalk\.com/robot/send\?access_token=[0-9a-f]{64}|qyapi\.weixin\.qq\.com/cgi-bin/webhook/send\?key=[0-9a-f-]{36}`)}, // the issuers: incoming webhooks
		{Kind: "a Telegram token", Hints: []string{":aa "}, Re: rule.Expression(`\b\d{8,10}:AA[A-Za-z0-9_-]{32,33}\b`), run: 32},                                                                                                                                                           // Telegram: bots
		{Kind: "a PagerDuty key", text: true, general: true, Hints: []string{"pagerduty", "pdus+", "token=u+", "token token="}, Re: rule.Expression(`(?i)\bpdus\+[\w-]{20,}|pagerduty[\w."' :=-]*["'\s:=](u\+)?[\w+-]{20,}|token=u?\+?[\w-]{18,}`), digit: true},                           // PagerDuty: API keys
		{Kind: "a Bitbucket token", Hints: []string{"atbb "}, Re: rule.Expression(`\bATBB[A-Za-z0-9]{28,}`), run: 28},                                                                                                                                                                      // Bitbucket: app passwords
		{Kind: "a Vault unseal key", text: true, Hints: []string{"unseal key", "recovery key", "unseal_keys", "root token"}, Re: rule.Expression(`(?i)(unseal|recovery) key \d+:\s*[A-Za-z0-9+/=]{32,}|unseal_keys_(b64|hex)|root token:\s*\S{20,}`)},                                      // Vault: operator init
		{Kind: "a key of Consul or Nomad", text: true, Hints: []string{"encrypt", "secretid"}, Re: rule.Expression(`(?i)\bencrypt["']?\s*[=:]\s*["'][A-Za-z0-9+/]{22,43}={0,2}["']|\bsecretid["']?\s*[=:]\s*["']?[0-9a-f]{8}-[0-9a-f-]{27}`)},                                              // Consul: gossip encryption, ACL tokens
		{Kind: "a Stripe key", Hints: []string{"whsec_ "}, Re: rule.Expression(`\bwhsec_[A-Za-z0-9+/=]{30,}`), run: 30},                                                                                                                                                                    // Stripe: webhooks
		{Kind: "a key of a language model's service", Hints: []string{"sk-or- ", "gsk_ ", "xai- ", "r8_ ", "sk- "}, run: 20, digit: true, Re: rule.Expression(`\bsk-or-v1-[0-9a-f]{64}|\bgsk_[A-Za-z0-9]{50,}|\bxai-[A-Za-z0-9]{70,}|\br8_[A-Za-z0-9]{37}\b|\bsk-[A-Za-z0-9]{32,}\b`)},     // OpenRouter, Groq, xAI, Replicate, OpenAI: API keys
		{Kind: "a Mailgun key", text: true, Hints: []string{"key-"}, Re: rule.Expression(`\bkey-[0-9a-f]{32}\b`), run: 32},                                                                                                                                                                 // Mailgun: API keys
		{Kind: "a Mailchimp key", text: true, Hints: []string{"-us"}, Re: rule.Expression(`\b[0-9a-f]{32}-us\d{1,2}\b`)},                                                                                                                                                                   // Mailchimp: API keys
		{Kind: "a SonarQube token", Hints: []string{"squ_ ", "sqp_ ", "sqa_ "}, Re: rule.Expression(`\bsq[upa]_[0-9a-f]{40}`), run: 40},                                                                                                                                                    // SonarQube: user tokens
		{Kind: "a token of a cluster", text: true, Hints: []string{"k10", "token-secret", "certificate-key", "certificatekey", "node-token"}, Re: rule.Expression(`\bK10[0-9a-f]{40,}::\S+|token-secret["']?\s*:\s*["']?[a-z0-9]{16}|certificate-?[kK]ey["']?[=:\s]\s*["']?[0-9a-f]{64}`)}, // k3s, kubeadm
		{Kind: "a token of Docker Swarm", Hints: []string{"swmtkn- "}, Re: rule.Expression(`\bSWM(TKN|KEY)-1-[\w/+-]{40,}`)},                                                                                                                                                               // Docker: swarm join-token
		{Kind: "a token of Docker Swarm", Hints: []string{"swmkey- "}, Re: rule.Expression(`\bSWMKEY-1-[\w/+]{40,}`)},                                                                                                                                                                      // Docker: swarm unlock-key
		{Kind: "a Tailscale key", Hints: []string{"privkey: "}, Re: rule.Expression(`\bprivkey:[0-9a-f]{64}`)},                                                                                                                                                                             // Tailscale: state file
		{Kind: "a ZeroTier identity", text: true, Hints: []string{":0:"}, Re: rule.Expression(`^[0-9a-f]{10}:0:[0-9a-f]{128}:[0-9a-f]{128}`), run: 100},                                                                                                                                    // ZeroTier: identity.secret
		{Kind: "a token of Cloudflare Tunnel", Hints: []string{"eyjhijoi ", "tunnelsecret "}, Re: rule.Expression(`\beyJhIjoi[A-Za-z0-9+/=_-]{60,}|"TunnelSecret"\s*:\s*"[A-Za-z0-9+/=]{20,}"`)},                                                                                           // Cloudflare: tunnels
		{Kind: "an npm token", text: true, Hints: []string{"_auth", "_password"}, Re: rule.Expression(`(^|:|\s)_(auth|password)\s*=\s*["']?[^\s$"'{]{8,}`)},                                                                                                                                // npm: .npmrc
		{Kind: "a key of Kaggle", text: true, Hints: []string{`"key"`}, Re: rule.Expression(`"key"\s*:\s*"[0-9a-f]{32}"`), digit: true},                                                                                                                                                    // Kaggle: kaggle.json
		{Kind: "an access token of Composer", text: true, Hints: []string{"-oauth", "http-basic"}, Re: rule.Expression(`"(github|gitlab|bitbucket)-oauth"`), then: rule.Expression(`^\s*:\s*\{[^}]*:\s*"[\w-]{20,}"`)},                                                                     // Composer: auth.json
		{Kind: "a token of crates.io", Hints: []string{"cio "}, Re: rule.Expression(`\bcio[A-Za-z0-9]{32}\b`), run: 32, digit: true},                                                                                                                                                       // Cargo: credentials.toml
		{Kind: "a token of a cloud", Hints: []string{"sbp_ ", "nfp_ ", "figd_ ", "cfpat- ", "napi_ ", "phx_ ", "rnd_ ", "essu_ ", "pat-na1- ", "pat-eu1- ", "dop_ ", "lip_ ", "atlasv1 ", "vercel_ ", "hcaik_ ", "hcxik_ ", "snyk_ ", "jfrt@ "},
			Re: rule.Expression(`\bsbp_[0-9a-f]{40}|\bnfp_[A-Za-z0-9]{36}|\bfigd_[\w-]{40}|\bCFPAT-[\w-]{43}|\bnapi_[a-z0-9]{60,}|\bphx_[A-Za-z0-9]{40,}|\brnd_[A-Za-z0-9]{28,}|\bessu_[\w=]{40,}|\bpat-(na|eu)1-[0-9a-f-]{36}|\bvercel_[A-Za-z0-9_]{24,}|\bhc[ax]ik_[a-z0-9]{50,}`)}, // Supabase, Netlify, Figma, Contentful, Neon, PostHog, Render, Elastic, HubSpot, Vercel, Honeycomb
		{Kind: "a private key of SSH", text: true, Hints: []string{"begin ssh2 encrypted private key"}, Re: rule.Expression(`---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----`)}, // RFC 4716
		{Kind: "a private key of minisign", Hints: []string{"encrypted secret key ", "signify secret key "}, Re: rule.Expression(`^untrusted comment: .*secret key`)},      // minisign, signify
		{Kind: "a private key of GnuPG", text: true, Hints: []string{"key: ("}, Re: rule.Expression(`^Key: \((protected-)?private-key`)},                                   // GnuPG: agent/keyformat.txt
		{Kind: "a private key", text: true, Hints: []string{"<rsakeyvalue>"}, Re: rule.Expression(`<RSAKeyValue>`), then: rule.Expression(`<D>[A-Za-z0-9+/=\s]{40,}</D>`)}, // XML Signature
		{Kind: "a wireless network's key", text: true, Hints: []string{"psk"}, Re: rule.Expression(`^\s*psk\s*=\s*("[^"]{8,63}"|[0-9a-f]{64})\s*$`)},                       // wpa_supplicant.conf(5)
		{Kind: "a key of an NTP server", text: true, Hints: []string{"md5", "sha1", "sha256", "sha512", "aes128", "aes256", "aes128cmac"}, in: named("*.keys", "chrony.keys", "ntp.keys", "keys"),
			Re: rule.Expression(`(?i)^\s*\d+\s+(MD5|M|SHA\d+|AES\d+\w*)\s+\S{4,}`)}, // chrony.conf(5), ntp.keys(5)
		{Kind: "a password of netrc", text: true, Hints: []string{"machine"}, Re: rule.Expression(`^\s*machine\s+\S+\s*$`), then: rule.Expression(`^(\s+(login|account)\s+\S+)*\s+password\s+\S+`)}, // netrc(5)
		{Kind: "a password of PostgreSQL", text: true, Hints: []string{":5432:"}, Re: rule.Expression(`^[^#\s:]+:5432:[^:\s]+:[^:\s]+:[^\s:]{3,}$`)},                                                // libpq: the password file
	}
}

func namedPatterns() []Pattern {
	return []Pattern{
		{Kind: "a password of PostgreSQL", text: true, in: named("*pgpass*", "pgpass.conf"), Re: rule.Expression(`^[^#\s:]+:(\d+|\*):[^:\s]+:[^:\s]+:[^\s:]{3,}$`)},
		{Kind: "a password of Postfix", text: true, in: named("sasl_passwd*", "sasl-passwd*", "passwd.client"), Re: rule.Expression(`^[^#\s]\S*\s+[^\s:]+:[^\s:]{3,}`)},
		{Kind: "a password of curl", text: true, in: named(".curlrc", "_curlrc", "curlrc"), Re: rule.Expression(`(?i)^\s*-{0,2}(?:u|user|proxy-user|oauth2-bearer)[\s=:]+["']?[^\s"'#]{3,}`)},
		{Kind: "a password of PPP", text: true, in: named("chap-secrets", "pap-secrets"), Re: rule.Expression(`^[^#\s]\S*\s+\S+\s+["']?[^\s"'*]{3,}`)},
		{Kind: "a password of rsync or WebDAV", text: true, in: either(named("rsyncd.secrets", "*.secrets"), below("/etc/davfs2")), Re: rule.Expression(`^[\w.-]+:[^\s:]{3,}$|^https?://\S+\s+\S+\s+\S{3,}`)},
		{Kind: "a password's hash", text: true, in: named("*htpasswd*", "*.htpasswd"), Re: rule.Expression(`^[\w.@-]+:[./A-Za-z0-9]{13}$`)},
		{Kind: "a password of an Ansible vault", in: named(".vault_pass*", ".vault-pass*", "vault_pass*", "vault-pass*", "vaultpass*", "*.vault_pass", ".ansible_vault*", ".ansible-vault*", "ansible_vault_pass*", "ansible-vault-pass*")},
		{Kind: "a cookie of Erlang", in: named(".erlang.cookie")},
		{Kind: "a credential of systemd", in: below("/etc/credstore", "/usr/lib/credstore", "/usr/local/lib/credstore")},
		{Kind: "a shared key", in: func(name string) bool {
			return rule.Kept([]string{"/etc/corosync/authkey", "/etc/pacemaker/authkey", "/etc/munge/munge.key", "/etc/ceph/*.keyring"}, name)
		}},
	}
}

// NamingServers are the files of a node that name its API server.
var NamingServers = []string{
	rule.KubeletDir + "/kubeconfig", rule.KubeletDir + "/bootstrap-kubeconfig", "/etc/kubernetes/*.conf", "/etc/rancher/*/*.yaml", "/var/lib/rancher/*/agent/*.kubeconfig",
}

// ClusterEndpoint matches the name of an EKS cluster's endpoint, of every
// partition, with IPv4 and with IPv6.
var ClusterEndpoint = rule.Expression(`(?i)\b[0-9a-f]{32}\.([a-z0-9-]+\.)*(eks(-[a-z]+)?\.[a-z0-9.-]+|[a-z0-9-]+\.api\.aws\b)`)

var awsAccount = regexp.MustCompile(`^\d{12}$`)

func commandPatterns() []Pattern {
	const given = `["']?([^\s"'$<>{}()|-][^\s"'$<>{}|]{2,})`
	row := func(hint, text string) Pattern {
		return Pattern{Kind: "a password of a command", text: true, general: true, Hints: []string{hint}, in: settings, value: 1, Re: rule.Expression(text)}
	}
	return []Pattern{
		row("mysql", `\bmysql\w*\b[^\n|;#]*?\s-p`+given),
		row("mysqladmin", `\bmysqladmin\b[^\n|;#]*?\spassword\s+`+given),
		row("mariadb", `\bmariadb[\w-]*\b[^\n|;#]*?\s-p`+given),
		row("sshpass", `\bsshpass\s+(?:-\w\s+)*-p\s*`+given),
		row("redis-cli", `\bredis-cli\b[^\n|;#]*?\s-a\s*`+given),
		row("ldap", `\bldap\w+\b[^\n|;#]*?\s-w\s*`+given),
		row("mongo", `\bmongo\w*\b[^\n|;#]*?\s-p\s*`+given),
		row("login", `\b(?:docker|podman|buildah|helm|skopeo|oras|nerdctl|crane|az|oc|argocd|cf)\b[^\n|;#]*?\blogin\b[^\n|;#]*?\s-p[\s=]*`+given),
		row("creds", `-creds[=\s]+["']?[^\s:"'$]+:`+given),
		row("ctr", `\bctr\b[^\n|;#]*?\s(?:-u|--user)[\s=]+["']?[^\s:"'$]+:`+given),
		row("-u", `\s-U[\s=]*["']?[\w.\\/-]+%`+given),
		row("chpasswd", `\becho\s+(?:-\w+\s+)?["']?[\w.-]+:([^\s"'$|:]{3,})["']?\s*\|\s*(?:sudo\s+)?[\w/]*chpasswd`),
		row("chpasswd", `\bchpasswd\s+<<<\s*["']?[\w.-]+:`+given),
		row("passwd", `\becho\s+(?:-\w+\s+)?["']?([^\s"'$|:]{3,})["']?\s*\|\s*(?:sudo\s+)?[\w/]*passwd\s+--stdin`),
		row("sudo", `\becho\s+(?:-\w+\s+)?["']?([^\s"'$|]{3,})["']?\s*\|\s*sudo\s+(?:-\w+\s+)*-\w*S`),
		row("pass:", `\s-(?:pass|passin|passout)\s+["']?pass:`+given),
		row("htpasswd", `\bhtpasswd\s+-\w*b\w*\s+\S+\s+\S+\s+`+given),
		row("http", `\bhttps?\s[^\n|;#]*?(?:-a|--auth)[\s=]+["']?[^\s:"'$]+:`+given),
		row("pass=", `\buser(?:name)?=[^,\s]+,(?:[^\s]*,)?pass=([^,\s"'$]{3,})`),
		row("password=", `\buser(?:name)?=[^,\s]+,(?:[^\s]*,)?password=([^,\s"'$]{3,})`),
		row("password=", `(?:^|[\s,])password=([^,\s"'$]{3,}),(?:[^\s]*,)?user(?:name)?=`),
		row("--", `(?i)(?:^|[\s"'\[,])--?[\w-]*(?:password|passwd|passphrase|pass)["']?=["']?`+given),
		row("--", `(?i)(?:^|[\s"'\[,])--?[\w-]*(?:password|passwd|passphrase|pass)["']?,?\s+["']?([^\s"'$<>{}()|-][^\s"'$<>{}|]*\d[^\s"'$<>{}|]*)`),
		{Kind: "a token of a command", text: true, general: true, Hints: []string{"--"}, in: settings, value: 1, digit: true,
			Re: rule.Expression(`(?i)(?:^|[\s"'\[,])--?[\w-]*(?:token|secret|api-?key|auth-?key|access-?key|secret-?key|certificate-key|psk|credentials)["',]*(?:=|\s+|,)\s*["']?([^\s"'$<>{}()|/-][^\s"'$<>{}|]{7,})`)},
		{Kind: "a password of cloud-init", text: true, Hints: []string{"chpasswd:"}, Re: rule.Expression(`^\s*chpasswd:`),
			then: rule.Expression(`^[^\n]*(\n\s*(expire|list|users):[^\n]*)*\n\s*(-\s*)?["']?[a-z_][\w.-]*:[^\s:"'$]{4,}`)},
		{Kind: "a password of cloud-init", text: true, Hints: []string{"plain_text_passwd"}, value: 1, Re: rule.Expression(`plain_text_passwd["']?\s*:\s*["']?([^\s"'$,}]{3,})`)},
		{Kind: "a credential of systemd", text: true, Hints: []string{"setcredential"}, Re: rule.Expression(`(?i)^\s*SetCredential\s*=\s*["']?[^:\s]+:\s*\S{3,}`)},
		{Kind: "a credential of systemd", text: true, Hints: []string{"systemd.set_credential", "io.systemd.credential"}, Re: rule.Expression(`(systemd\.set_credential(_binary)?=|io\.systemd\.credential(\.binary)?:)[^\s:=]+[:=]\S{3,}`)},
		{Kind: "a token in a URL", text: true, general: true, Hints: []string{"://"}, in: noSamples, digit: true, Re: rule.Expression(`://[\w-]{20,}@[\w-]+\.`)},
		{Kind: "a password in an address", text: true, general: true, Hints: []string{"password=", "passwd=", "pwd=", "secret=", "token=", "apikey=", "api_key=", "sig=", "signature="}, in: noSamples, value: 1,
			Re: rule.Expression(`(?i)(?:[?&;]|&amp;)\s*(?:[\w-]*password|passwd|pwd|(?:access|auth|api|private|client)?_?-?(?:token|secret)|api_?key|sig|signature)=([^\s&;"'<>$%{}]{6,})`)},
	}
}

// tokenPatterns are tokens with a documented beginning and length. Each row
// names the documentation of the issuer.
func tokenPatterns() []Pattern {
	return []Pattern{
		{Kind: "a 1Password key", Hints: []string{"a3- ", "ops_eyj "}, // 1Password: Secret Key, service accounts
			Re: rule.Expression(`\bA3-[A-Z0-9]{6}-([A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(-[A-Z0-9]{5}){3}\b|\bops_eyJ[A-Za-z0-9+/]{200,}`)},
		{Kind: "an Adobe client secret", Hints: []string{"p8e- "}, Re: rule.Expression(`\bp8e-[A-Za-z0-9_-]{32}`)},                                                                                                      // Adobe Developer: OAuth credentials
		{Kind: "an Airtable token", Hints: []string{"pat "}, run: 14, Re: rule.Expression(`\bpat[A-Za-z0-9]{14}\.[0-9a-f]{64}\b`)},                                                                                      // Airtable: personal access tokens
		{Kind: "an Alibaba Cloud access key", text: true, Hints: []string{"ltai"}, run: 12, Re: rule.Expression(`\bLTAI[A-Za-z0-9]{12,20}\b`), digit: true},                                                             // Alibaba Cloud: AccessKey pairs
		{Kind: "an Artifactory key", text: true, Hints: []string{"akcp", "cmvmd"}, Re: rule.Expression(`\bAKCp[A-Za-z0-9]{69}\b|\bcmVmd[A-Za-z0-9]{59}\b`)},                                                             // JFrog: API keys, reference tokens
		{Kind: "an Atlassian token", Hints: []string{"atatt3 ", "atctt3 "}, Re: rule.Expression(`\bAT[AC]TT3[A-Za-z0-9_=-]{100,}`)},                                                                                     // Atlassian: API tokens
		{Kind: "an Authress access key", Hints: []string{".acc_ ", ".acc- "}, Re: rule.Expression(`\b(sc|ext|scauth|authress)_[A-Za-z0-9]{5,30}\.[a-z0-9A-Z]{4,6}\.acc[_-][A-Za-z0-9-]{10,32}\.[A-Za-z0-9+/_=-]{30,}`)}, // Authress: service clients
		{Kind: "an Amazon Bedrock key", Hints: []string{"absk ", "bedrock-api-key- "}, Re: rule.Expression(`\b(ABSK[A-Za-z0-9+/]{100,}|bedrock-api-key-[A-Za-z0-9+/]{28,})`)},                                           // Amazon Bedrock: API keys
		{Kind: "an Azure client secret", Hints: []string{"q~ "}, Re: rule.Expression(`(^|[^A-Za-z0-9_~.-])[A-Za-z0-9_~.]{3}\dQ~[A-Za-z0-9_~.-]{31,34}($|[^A-Za-z0-9_~.-])`)},                                            // Microsoft Entra: application secrets
		{Kind: "a ClickHouse Cloud key", text: true, Hints: []string{"4b1d"}, run: 38, Re: rule.Expression(`\b4b1d[A-Za-z0-9]{38}\b`)},                                                                                  // ClickHouse Cloud: API keys
		{Kind: "a Clojars token", Hints: []string{"clojars_ "}, Re: rule.Expression(`(?i)\bCLOJARS_[a-z0-9]{60}`)},                                                                                                      // Clojars: deploy tokens
		{Kind: "a Cloudflare origin CA key", Hints: []string{"v1.0- "}, Re: rule.Expression(`\bv1\.0-[0-9a-f]{24}-[0-9a-f]{100,}`)},                                                                                     // Cloudflare: Origin CA keys
		{Kind: "a Databricks token", Hints: []string{"dapi "}, run: 32, Re: rule.Expression(`\bdapi[0-9a-f]{32}`)},                                                                                                      // Databricks: personal access tokens
		{Kind: "a Defined Networking key", Hints: []string{"dnkey- "}, Re: rule.Expression(`\bdnkey-[A-Za-z0-9=_-]{26}-[A-Za-z0-9=_-]{52}`)},                                                                            // Defined Networking: API keys
		{Kind: "a Doppler token", Hints: []string{"dp. "}, Re: rule.Expression(`\bdp\.(pt|st|ct|sa|scim|audit)\.([a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}`)},                                                              // Doppler: token formats
		{Kind: "a Duffel token", Hints: []string{"duffel_ "}, Re: rule.Expression(`\bduffel_(test|live)_[A-Za-z0-9_=-]{43}`)},                                                                                           // Duffel: access tokens
		{Kind: "a Dynatrace token", Hints: []string{"dt0 "}, Re: rule.Expression(`\bdt0[a-z]\d\d\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{64}`)},                                                                                   // Dynatrace: token format
		{Kind: "an EasyPost key", text: true, Hints: []string{"ezak", "eztk"}, Re: rule.Expression(`\bEZ[AT]K[A-Za-z0-9]{54}\b`)},                                                                                       // EasyPost: authentication
		{Kind: "a Facebook token", Hints: []string{"eaac ", "eaam ", "facebook "}, Re: rule.Expression(`\bEAA[CM][A-Za-z0-9]{100,}`)},                                                                                   // Meta: access tokens
		{Kind: "a Facebook token", text: true, Hints: []string{"|", "%7c"}, run: 27, Re: rule.Expression(`\b\d{15,16}(\||%7[cC]|%)[A-Za-z0-9_-]{27,40}($|[^A-Za-z0-9_-])`)},                                             // Meta: app access tokens
		{Kind: "a Flutterwave key", text: true, Hints: []string{"flwsec", "flwpub"}, Re: rule.Expression(`\bFLW(SECK|PUBK)(_TEST)?-[A-Za-z0-9]{12}`)},                                                                   // Flutterwave: API keys
		{Kind: "a Fly.io token", Hints: []string{"fo1_ ", "fm1a_ ", "fm1r_ ", "fm2_ "}, Re: rule.Expression(`\b(fo1_[A-Za-z0-9_-]{43}|fm(1[ar]|2)_[A-Za-z0-9+/]{100,})`)},                                               // Fly.io: access tokens
		{Kind: "a Frame.io token", Hints: []string{"fio-u- "}, Re: rule.Expression(`\bfio-u-[A-Za-z0-9_=-]{64}`)},                                                                                                       // Frame.io: developer tokens
		{Kind: "a Freemius key", text: true, Hints: []string{"secret_key"}, Re: rule.Expression(`["']secret_key["']\s*=>\s*["']sk_[^\s"']{20,}["']`)},                                                                   // Freemius: SDK integration
		{Kind: "a GitLab token", text: true, Hints: []string{"gr1348941", "_gitlab_session="}, Re: rule.Expression(`\bGR1348941[A-Za-z0-9_-]{20}|_gitlab_session=[0-9a-z]{32}`)},                                        // GitLab: token overview
		{Kind: "a Grafana token", Hints: []string{"eyjrijoi "}, Re: rule.Expression(`\beyJrIjoi[A-Za-z0-9]{60,}`)},                                                                                                      // Grafana: API keys
		{Kind: "a Harness token", Hints: []string{"pat. ", "sat. "}, Re: rule.Expression(`\b[ps]at\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}`)},                                                              // Harness: API keys
		{Kind: "a Heroku token", Hints: []string{"hrku- "}, Re: rule.Expression(`\bHRKU-[A-Za-z0-9_-]{36,}`)},                                                                                                           // Heroku: OAuth tokens
		{Kind: "a Hugging Face token", Hints: []string{"api_org_ "}, Re: rule.Expression(`\bapi_org_[A-Za-z]{34}`)},                                                                                                     // Hugging Face: organization tokens
		{Kind: "an Infracost key", Hints: []string{"ico- "}, Re: rule.Expression(`\bico-[A-Za-z0-9]{32}\b`)},                                                                                                            // Infracost: API keys
		{Kind: "a secret of 42's API", Hints: []string{"s-s4t2 "}, Re: rule.Expression(`\bs-s4t2(ud|af)-[0-9a-f]{64}`)},                                                                                                 // 42: API applications
		{Kind: "a signed token (JWT)", Hints: []string{"zxlk "}, Re: rule.Expression(`\bZXlK[A-Za-z0-9+/_-]{52,}`)},                                                                                                     // RFC 7519, in base64 once more
		{Kind: "a Linear key", Hints: []string{"lin_api_ "}, Re: rule.Expression(`\blin_api_[A-Za-z0-9]{40}`)},                                                                                                          // Linear: personal API keys
		{Kind: "a MaxMind key", Hints: []string{"_mmk "}, Re: rule.Expression(`\b[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk\b`)},                                                                                                // MaxMind: license keys
		{Kind: "a Microsoft Teams webhook", Hints: []string{"webhook.office.com "}, Re: rule.Expression(`\bwebhook\.office\.com/webhookb2/[0-9A-Za-z@-]{50,}/IncomingWebhook/[0-9A-Za-z]{32}/`)},                        // Microsoft Teams: incoming webhooks
		{Kind: "a New Relic key", Hints: []string{"nrjs- ", "nrii- "}, Re: rule.Expression(`\bNRJS-[0-9a-f]{19}|\bNRII-[A-Za-z0-9_-]{32}`)},                                                                             // New Relic: API keys
		{Kind: "a Notion token", Hints: []string{"ntn_ "}, Re: rule.Expression(`\bntn_\d{11}[A-Za-z0-9]{35}`)},                                                                                                          // Notion: authorization
		{Kind: "a NuGet password", text: true, Hints: []string{`password"`}, Re: rule.Expression(`(?i)<add\s+key="(ClearText)?Password"\s+value="[^"%]{8,}"`)},                                                          // NuGet: nuget.config reference
		{Kind: "an Octopus Deploy key", text: true, Hints: []string{"api-"}, Re: rule.Expression(`\bAPI-[A-Z0-9]{26,32}\b`), digit: true},                                                                               // Octopus Deploy: API keys
		{Kind: "an OpenShift token", Hints: []string{"sha256~ "}, Re: rule.Expression(`\bsha256~[A-Za-z0-9_-]{43}`)},                                                                                                    // OpenShift: OAuth access tokens
		{Kind: "a key of a language model's service", Hints: []string{"t3blbkfj ", "pplx- "}, Re: rule.Expression(`\bsk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}|\bpplx-[A-Za-z0-9]{48}`)},                                // OpenAI, Perplexity: API keys
		{Kind: "a PlanetScale token", Hints: []string{"pscale_ "}, Re: rule.Expression(`(?i)\bpscale_(tkn|oauth|pw)_[\w=.-]{32,}`)},                                                                                     // PlanetScale: service tokens, passwords
		{Kind: "a Postman key", Hints: []string{"pmak- "}, Re: rule.Expression(`\bPMAK-[A-Za-z0-9]{24}-[A-Za-z0-9]{34}`)},                                                                                               // Postman: API keys
		{Kind: "a Prefect key", Hints: []string{"pnu_ ", "pnb_ "}, Re: rule.Expression(`\bpn[ub]_[A-Za-z0-9]{36}\b`)},                                                                                                   // Prefect: API keys
		{Kind: "a Pulumi token", Hints: []string{"pul- "}, Re: rule.Expression(`\bpul-[0-9a-f]{40}\b`)},                                                                                                                 // Pulumi: access tokens
		{Kind: "a ReadMe key", Hints: []string{"rdme_ "}, Re: rule.Expression(`\brdme_[A-Za-z0-9]{70}`)},                                                                                                                // ReadMe: API keys
		{Kind: "a RubyGems key", Hints: []string{"rubygems_ "}, Re: rule.Expression(`\brubygems_[0-9a-f]{48}`)},                                                                                                         // RubyGems: API keys
		{Kind: "a Scalingo token", Hints: []string{"tk-us- "}, Re: rule.Expression(`\btk-us-[A-Za-z0-9_-]{48}`)},                                                                                                        // Scalingo: API tokens
		{Kind: "a Brevo key", Hints: []string{"xkeysib- "}, Re: rule.Expression(`\bxkeysib-[0-9a-f]{64}-[A-Za-z0-9]{16}`)},                                                                                              // Brevo: API keys
		{Kind: "a SettleMint token", Hints: []string{"sm_aat_ ", "sm_pat_ ", "sm_sat_ "}, Re: rule.Expression(`\bsm_[aps]at_[A-Za-z0-9]{16}`)},                                                                          // SettleMint: access tokens
		{Kind: "a Shippo token", Hints: []string{"shippo_ "}, Re: rule.Expression(`\bshippo_(live|test)_[0-9A-Fa-f]{40}`)},                                                                                              // Shippo: authentication
		{Kind: "a Shopify token", Hints: []string{"shpat_ ", "shpca_ ", "shppa_ ", "shpss_ "}, Re: rule.Expression(`\bshp(at|ca|pa|ss)_[0-9A-Fa-f]{32}`)},                                                               // Shopify: access tokens
		{Kind: "a Sidekiq key", text: true, Hints: []string{"contribsys__com"}, Re: rule.Expression(`(?i)contribsys__com[\s:=>?,"']+[0-9a-f]{8}:[0-9a-f]{8}`)},                                                          // Sidekiq: commercial installation
		{Kind: "a Sourcegraph token", Hints: []string{"sgp_ "}, Re: rule.Expression(`\bsgp_(([0-9A-Fa-f]{16}|local)_)?[0-9A-Fa-f]{40}`)},                                                                                // Sourcegraph: access tokens
		{Kind: "a Square token", text: true, Hints: []string{"eaaa", "sq0"}, Re: rule.Expression(`\b(EAAA[A-Za-z0-9_-]{22,60}|sq0(atp|csp)-[A-Za-z0-9_-]{22,60})\b`), digit: true},                                      // Square: access tokens
		{Kind: "a Twilio key", text: true, Hints: []string{"sk"}, run: 32, Re: rule.Expression(`SK[0-9A-Fa-f]{32}($|[^0-9A-Fa-f])`)},                                                                                    // Twilio: API keys
		{Kind: "a Vault token", text: true, Hints: []string{"s."}, run: 24, Re: rule.Expression(`(^|[^A-Za-z0-9_.])s\.[A-Za-z0-9]{24}\b`), digit: true},                                                                 // Vault before 1.10: tokens
	}
}

// services lists services whose keys are recognized by the name before them. By
// the services' documentation, the name and an equals sign or a colon stand
// before each key.
func services() []string {
	return []string{
		"adafruit", "adobe", "airtable", "algolia", "alibaba", "artifactory", "asana", "atlassian", "beamer", "bintray", "bitbucket", "bittrex",
		"cloudflare", "co_api_key", "co-api-key", "coapikey", "codecov", "cohere", "coinbase", "confluence", "confluent", "contentful",
		"datadog", "discord", "droneci", "dropbox", "etsy", "facebook", "fastly", "finicity", "finnhub", "flickr", "freshbooks",
		"gitter", "gocardless", "heroku", "hubspot", "intercom", "jfrog", "jira", "kraken", "kucoin", "launchdarkly", "linear", "linked_in", "linked-in", "linkedin",
		"lob", "looker", "mailchimp", "mailgun", "mapbox", "mattermost", "meraki", "message_bird", "message-bird", "messagebird", "netlify", "new_relic", "new-relic", "newrelic", "nytimes",
		"okta", "plaid", "pagerduty", "private_ai", "private-ai", "privateai", "rapidapi", "sendbird", "sentry", "snyk", "sonar", "squarespace", "sumo",
		"telegram", "travis", "twilio", "twitch", "twitter", "typeform", "xray", "yandex", "zendesk",
	}
}

// servicePattern matches a key by the name before it. A short value, or a value
// of several words, counts only if the name says that it is a key.
func servicePattern() Pattern {
	const (
		sign   = `["'\x60]?[\s\])]*[:=|?,>]{1,4}[\s"'\x60=]{0,5}`
		value  = `([a-z0-9]{2,11}[.:])?[A-Za-z0-9_=%+-][A-Za-z0-9_=%/+-]{13,}`
		random = `([A-Za-z0-9]{1,64}[_.:-]){0,4}([A-Za-z0-9]{14,}|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})`
	)
	wordStart := regexp.MustCompile(`(^|[_-])[a-z]`)
	var inside []string // such as theirDatadogKey
	for _, name := range services() {
		camel := wordStart.ReplaceAllStringFunc(name, func(start string) string { return strings.ToUpper(start[len(start)-1:]) })
		inside = append(inside, camel, strings.ToUpper(camel))
	}
	names := `((^|[^A-Za-z])(` + strings.Join(services(), "|") + `)|(?-i:[a-z](` + strings.Join(inside, "|") + `)))`
	return Pattern{
		Kind: "a key of a service", text: true, Hints: services(), digit: true,
		sample: rule.Expression(`(?i)example|(sha(1|256|384|512)|md5|digest|checksum|commit|revision|version)[\w.-]*` + sign),
		Re:     rule.Expression(`(?i)` + names + `([\w.-]*(key|token|secret|passw|auth|cred|login|[_-]id|id["'\s:=])[\w.-]*` + sign + value + `|[\w.-]{0,24}` + sign + random + `)`),
	}
}

// environments are files whose lines become environment variables of programs.
var environments = either(
	named("*.env", ".env*", "env", "environment*", "*.service", "*.sh", "profile", "*bashrc", ".profile", ".bash_profile", ".zshrc", ".zshenv"),
	below("/etc/default", "/etc/sysconfig", "/etc/environment.d", "/etc/systemd", "/usr/lib/systemd", "/etc/eks", "/etc/conf.d"),
)

// keyFollows matches a PEM or OpenPGP block after its first line, also inside a
// string of a program. The first line alone is in every program that reads such
// keys.
var keyFollows = rule.Expression(`^(\\+[rnt]|[\s"'+#>|\\,.])*((Proc-Type|DEK-Info|Version|Comment|Hash|Charset):[^\n]*?(\\+[rn]|[\s"'+#>|\\,.])+)*[A-Za-z0-9+/=]{32}`)

// secretData matches the data of a Secret up to the first value.
const secretData = `(\n\s+[^\n]*)*?\n\s+"?[\w.-]+"?:\s*([|>][-+]?\s+)?["']?[A-Za-z0-9+/]{10,}`

// The issuers document the form of most tokens. The other tokens are recognized
// by a name before an equals sign.
var secretPatterns = []Pattern{
	{Kind: "a private key", Hints: []string{"private key "}, Re: rule.Expression(`-----BEGIN ([A-Z0-9]+ )*PRIVATE KEY( BLOCK)?-----`),
		then: keyFollows},
	{Kind: "a private key of PuTTY", Hints: []string{"putty-user-key-file "}, Re: rule.Expression(`^PuTTY-User-Key-File-\d+:`)},
	{Kind: "a private key of age", Hints: []string{"age-secret-key- "}, Re: rule.Expression(`\bAGE-SECRET-KEY-1[0-9A-Z]{20,}`)},
	{Kind: "a private key of WireGuard", text: true, Hints: []string{"privatekey", "presharedkey"}, Re: rule.Expression(`(?i)^\s*(PrivateKey|PresharedKey)\s*=\s*[A-Za-z0-9+/]{43}=`)},
	{Kind: "a key of OpenVPN", Hints: []string{"openvpn static key "}, Re: rule.Expression(`-----BEGIN OpenVPN (Static key|tls-crypt-v2 client key)`),
		then: rule.Expression(`^[^\n]*\n([A-Za-z0-9+/=]{32})`)},
	{Kind: "a private JSON Web Key", text: true, Hints: []string{`"d"`}, Re: rule.Expression(`"d"\s*:\s*"[A-Za-z0-9_+/=-]{40,}"`), digit: true},
	{Kind: "a key of DNS", text: true, Hints: []string{"privatekey:"}, Re: rule.Expression(`^PrivateKey:\s*[A-Za-z0-9+/]{40,}`)},
	{Kind: "a key of DNS", text: true, Hints: []string{"secret"}, Re: rule.Expression(`^\s*secret\s+"[A-Za-z0-9+/]{20,}={0,2}"\s*;`)},
	{Kind: "a key of IPsec", text: true, Hints: []string{"psk", "eap", "xauth"}, in: named("*.secrets"), Re: rule.Expression(`^[^#]*:\s*(PSK|EAP|XAUTH)\s+("[^"]+"|0[xs]\S+)`)},
	{Kind: "a wireless network's key", text: true, Hints: []string{"psk", "password"}, in: either(below("/etc/NetworkManager", "/etc/wpa_supplicant", "/var/lib/iwd"), networkFiles),
		Re: rule.Expression(`^\s*(psk|(leap-)?password|wep-key\d|PreSharedKey|Passphrase)\s*=\s*"?[^\s"#]{8,}`)},
	{Kind: "a key of SNMP", text: true, Hints: []string{"createuser", "usmuser"}, Re: rule.Expression(`^\s*(?i:createUser)\s+(-e\s+\S+\s+)?\S+\s+(MD5|SHA)\S*\s+\S+|^usmUser\s.*\s0x[0-9a-f]{20,}`)},
	{Kind: "an AWS access key", Hints: []string{"akia ", "asia ", "abia ", "acca ", "a3t "}, run: 16, Re: rule.Expression(`\b(AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[0-9A-Z]{16}\b`), sample: rule.Expression(`EXAMPLE`)},
	{Kind: "an AWS secret key", text: true, Hints: []string{"secret"}, sample: rule.Expression(`EXAMPLE`),
		Re: rule.Expression(`(?i)(aws[\w.-]*secret|secret[_-]?(access[_-]?)?key|secretkey)[\w-]*["'\])]*\s*(=>|[:=>,]|\s)\s*["']?[A-Za-z0-9/+]{40}([^A-Za-z0-9/+=]|$)`)},
	{Kind: "an AWS session token", Hints: []string{"iqojb3jpz2lu ", "fwogzxivyxdz ", "session_token ", "sessiontoken "},
		sample: rule.Expression(`EXAMPLE`), Re: rule.Expression(`\b(IQoJb3JpZ2lu|FwoGZXIvYXdz)[A-Za-z0-9/+=]{64,}|(?i:session_?token["']?\s*[:=]\s*["']?[A-Za-z0-9/+=]{100,})`)},
	{Kind: "registry credentials", text: true, Hints: []string{`"auth"`, "identitytoken", "registrytoken"},
		Re: rule.Expression(`"(auth|identitytoken|registrytoken)"\s*:\s*"[A-Za-z0-9+/=_.-]{8,}"`)},
	{Kind: "registry credentials", text: true, Hints: []string{"auth", "password", "token"}, in: below("/etc/containerd", "/etc/soci-snapshotter-grpc", "/etc/crio", "/etc/containers"),
		Re: rule.Expression(`(?i)^\s*(auth|password|identity_?token)\s*=\s*["'][^"'\s]{4,}["']`)},
	{Kind: "a kubeconfig's client key", text: true, Hints: []string{"client-key-data"}, Re: rule.Expression(`\bclient-key-data["']?\s*:\s*["']?[A-Za-z0-9+/=]{20,}`)},
	{Kind: "a kubeconfig's token", text: true, Hints: []string{"token"}, Re: rule.Expression(`(^|[\s{,"'])token["']?\s*:\s*["']?[A-Za-z0-9._-]{16,}`), digit: true},
	{Kind: "a cluster's join token", text: true, Hints: []string{"token"}, Re: rule.Expression(`(?i)token["']?[=:\s]\s*["']?[a-z0-9]{6}\.[a-z0-9]{16}\b`), digit: true},
	{Kind: "a signed token (JWT)", Hints: []string{"eyj "}, Re: rule.Expression(`\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}`)},
	{Kind: "a GitHub token", Hints: []string{"ghp_ ", "gho_ ", "ghu_ ", "ghs_ ", "ghr_ ", "github_pat_ "}, Re: rule.Expression(`\b(gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{30})`)},
	{Kind: "a GitLab token", Hints: []string{"glpat- ", "gldt- ", "glrt- ", "glcbt- ", "glptt- ", "glagent- ", "glsoat- ", "glft- ", "glffct- ", "glimt- ", "gloas- "},
		Re: rule.Expression(`\bgl(pat|dt|rt|cbt|ptt|agent|soat|ft|ffct|imt|oas)-[A-Za-z0-9_-]{20}`)},
	{Kind: "a Slack token", Hints: []string{"xox ", "xapp- "}, Re: rule.Expression(`\b(xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-\d-[A-Za-z0-9-]{20,})`)},
	{Kind: "a Slack webhook", Hints: []string{"hooks.slack "}, Re: rule.Expression(`hooks\.slack(-gov)?\.com/(services|workflows|triggers)/[A-Z0-9]{6,}/[A-Z0-9]{6,}/[A-Za-z0-9]{16,}`)},
	{Kind: "a Tailscale key", Hints: []string{"tskey- "}, Re: rule.Expression(`\btskey-(auth|client|api|scim|webhook)-[A-Za-z0-9]{8,}-?[A-Za-z0-9]+`)},
	{Kind: "a Grafana token", Hints: []string{"glsa_ ", "glc_ "}, Re: rule.Expression(`\b(glsa_[A-Za-z0-9]{32}_[0-9A-Fa-f]{8}|glc_[A-Za-z0-9+/=]{32,})`), digit: true},
	{Kind: "a New Relic key", Hints: []string{"nrak- ", "nral ", "ffal "}, Re: rule.Expression(`\bNRAK-[A-Z0-9]{27}\b|\b[0-9a-z]{36}(NR|FF)AL\b`)},
	{Kind: "a Stripe key", Hints: []string{"k_live_ ", "k_test_ ", "k_prod_ "}, Re: rule.Expression(`\b[sr]k_(live|test|prod)_[A-Za-z0-9]{10,}`), digit: true},
	{Kind: "a SendGrid key", Hints: []string{"sg. "}, Re: rule.Expression(`\bSG\.[A-Za-z0-9=_.-]{66}($|[^A-Za-z0-9=_.-])`)},
	{Kind: "a DigitalOcean token", Hints: []string{"_v1_ "}, Re: rule.Expression(`\bdo[opr]_v1_[0-9a-f]{64}\b`)},
	{Kind: "a Sentry token", Hints: []string{"sntrys_ ", "sntryu_ "}, Re: rule.Expression(`\bsntry(s_ey[A-Za-z0-9+/=_]{40,}|u_[0-9a-f]{64})`)},
	{Kind: "a key of a language model's service", Hints: []string{"sk- ", "hf_ "}, Re: rule.Expression(`\b(sk-(ant|proj|svcacct|admin)-[A-Za-z0-9_-]{24,}|hf_[A-Za-z]{34}\b)`)},
	{Kind: "a Google API key", Hints: []string{"aiza "}, Re: rule.Expression(`\bAIza[A-Za-z0-9_-]{35}\b`)},
	{Kind: "an npm token", Hints: []string{"npm_ ", "_authtoken "}, Re: rule.Expression(`\bnpm_[A-Za-z0-9]{36}\b|_authToken\s*=\s*[^\s$]{16,}`)},
	{Kind: "a PyPI token", Hints: []string{"pypi-ageich "}, Re: rule.Expression(`\bpypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{20,}`)},
	{Kind: "a Docker Hub token", Hints: []string{"dckr_ "}, Re: rule.Expression(`\bdckr_[po]at_[A-Za-z0-9_-]{20,}`)},
	{Kind: "a Vault token", Hints: []string{"hvs. ", "hvb. ", "hvr. "}, Re: rule.Expression(`\bhv[sbr]\.[A-Za-z0-9_-]{24,}`)},
	{Kind: "a HCP Terraform token", Hints: []string{".atlasv1. "}, Re: rule.Expression(`\b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{40,}`)},
	{Kind: "an Azure storage key", Hints: []string{"accountkey= "}, Re: rule.Expression(`(?i)\bAccountKey=[A-Za-z0-9+/]{86}==`)},
	{Kind: "an API key", text: true, Hints: []string{"api_key", "apikey", "api-key", "app_key", "appkey", "license_key", "licensekey", "integration_key", "routing_key", "service_key", "ingest_key"}, Re: rule.Expression(`(?i)(\b|_)(api|app|license|integration|routing|service|ingest)[_-]?key["']?\s*[:=]\s*["']?[0-9a-f]{32,40}([^0-9a-f]|$)`), digit: true},
	{Kind: "credentials of an HTTP header", text: true, Hints: []string{"authorization", "bearer"}, digit: true,
		Re: rule.Expression(`(?i)\b(authorization["']?\s*[:=]\s*[\[\s]*["']?(basic|token|bearer|ssws|apikey|splunk)\s+[A-Za-z0-9._~+/=-]{8,}|bearer\s+[A-Za-z0-9._~+/-]{20,})`)},
	{Kind: "a password in a URL", text: true, Hints: []string{"://"}, Re: rule.Expression(`(?i)\b[a-z][a-z0-9+.-]*://([^\s/:@"'<>$%{}]|%[0-9a-f]{2})*:([^\s/@"'<>$%{}]|%[0-9a-f]{2}){3,}@[a-z0-9.\[-]+`),
		sample: rule.Expression(`(?i):([^@]*example[^@]*|\*+|x+|\.+|(my|your)?-?(pass(word|wd)?|pwd)|bar|xyzzy)@`)},
	{Kind: "a password of netrc", text: true, Hints: []string{"password"}, Re: rule.Expression(`(?i)\b(machine\s+\S+|default)\s+login\s+\S+\s+password\s+\S+`)},
	{Kind: "a password of netrc", text: true, Hints: []string{"password"}, in: either(named(".netrc", "_netrc"), below("/etc/apt/auth.conf.d", "/etc/apt/auth.conf")), Re: rule.Expression(`^\s*password\s+\S+`)},
	{Kind: "a password", text: true, Hints: []string{"pass"}, in: named("*.cnf", "*[cC]redentials*", "*.cred*", "*smb*", "*cifs*"), Re: rule.Expression(`(?i)^\s*pass(word)?\s*=\s*["']?[^\s"'#]+`)},
	{Kind: "a password's hash", text: true, Hints: []string{"$1$", "$2a$", "$2b$", "$2x$", "$2y$", "$5$", "$6$", "$7$", "$y$", "$gy$", "$apr1$", "$md5$", "$sha1$", "pbkdf2", "$scrypt$", "argon2", "{sha", "{ssha", "{smd5"},
		Re: rule.Expression(`(^|[\s:="'>,])[!*]*(\$(1|2[abxy]|5|6|7|g?y|apr1|md5|sha1|pbkdf2[\w-]*|scrypt|argon2id?)\$[./A-Za-z0-9$=,+-]{20,}|\{S?(SHA|MD5)\d*\}[A-Za-z0-9+/=]{20,}|(pbkdf2_sha\d+|argon2)\$[./A-Za-z0-9$=,+]{20,})|\bgrub\.pbkdf2\.sha512\.\d+\.[0-9A-F]{32,}`)},
	{Kind: "a password of Terraform", text: true, Hints: []string{"password"}, in: named("*.tf", "*.hcl", "*.tfvars"), Re: rule.Expression(`(?i)password"?\s*=\s*"[^"$\s]{8,}"`)},
	{Kind: "credentials of an HTTP header", text: true, Hints: []string{"-h", "--header"}, digit: true,
		Re: rule.Expression(`(?i)\s(-H|--header)[\s=]*["'](authorization|(x-([a-z]+-)?|private-|job-)?(api-?)?(key|token))\s*:\s*((api-?)?token\s+)?[\w=~@.+/-]{8,}["']`)},
	{Kind: "a password of a command", text: true, Hints: []string{"curl"}, Re: rule.Expression(`\bcurl\b`),
		then: rule.Expression(`^([^\n]*\\\n){0,5}[^\n]*\s(-u|--user|-U|--proxy-user)[\s=]*["']?[^\s"'$:<>{}%*]+:[^\s"'$:<>{}%*]{3,}`)},
	{Kind: "a Secret of Kubernetes", text: true, Hints: []string{"kind"}, Re: rule.Expression(`^[\s{-]*"?kind"?:\s*["']?Secret["']?[\s,]*$`),
		then: rule.Expression(`^(\n([^-\n][^\n]*)?)*?\n\s*"?(data|stringData)"?:[\s{]*?` + secretData)},
	{Kind: "a Secret of Kubernetes", text: true, Hints: []string{"data", "stringdata"}, Re: rule.Expression(`^[\s{-]*"?(data|stringData)"?:[\s{]*$`),
		then: rule.Expression(`^` + secretData + `[^\n]*(\n([^-\n][^\n]*)?)*?\n\s*"?kind"?:\s*["']?Secret["']?[\s,}]*(\n|$)`)},
	{Kind: "a kubeconfig of one cluster", text: true, Hints: []string{"server:"}, in: unusual, Re: rule.Expression(`^\s+server:\s*["']?https?://[\w.:-]+`),
		sample: rule.Expression(`//(127\.|localhost|kubernetes)|example`), then: rule.Expression(`^[^\n]*\n(?:[^\n]*\n)*?(?:contexts|users|current-context|kind):`)},
	{Kind: "a PKCS #12 key store", in: named("*.p12", "*.pfx", "*.P12", "*.PFX")},
	{Kind: "a secret of an environment", text: true, Hints: []string{"passw", "secret", "token", "key", "passphrase"}, in: environments, digit: true,
		Re: rule.Expression(`(?i)^[^#]*\b([A-Z0-9]+_)*(PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|API_?KEY|SECRET_?KEY|PRIVATE_?KEY)\s*=\s*["']?[^\s"'$%/<{}()*\x60\\][^\s"'<>$()]{7,}`)},
}

// unusual selects kubeconfigs in other places than those that rules cover.
func unusual(name string) bool { return settings(name) && !rule.Kept(NamingServers, name) }

// All returns the patterns of every kind of secret.
func All() []Pattern {
	return slices.Concat(secretPatterns, tokenPatterns(), cloudPatterns(), commandPatterns(), namedPatterns(), assignmentPatterns(), []Pattern{servicePattern()})
}

// networkFiles configure the machine's network.
var networkFiles = below("/etc/netplan", "/etc/network", "/etc/systemd/network", "/etc/NetworkManager", "/etc/sysconfig/network", "/etc/sysconfig/network-scripts", "/etc/udev/rules.d", "/etc/wicked")

// ofOneAccount selects the files in which an AWS account is no configuration of the
// image: registries and roles are, of the programs that pull images or log in.
func ofOneAccount(name string) bool {
	return settings(name) && noSamples(name) && !below("/etc/eks", "/etc/kubernetes", "/etc/containerd", "/etc/aws")(name)
}

// HostPatterns match IDs of one EC2 instance, whose DMI UUID starts with ec2,
// and of one cluster.
var HostPatterns = []Pattern{
	{Kind: "an EC2 instance id", Hints: []string{"i-"}, Re: rule.Expression(`\bi-([0-9a-f]{17}|[0-9a-f]{8})\b`), sample: rule.Expression(`i-1234567890abcdef0`), digit: true},
	{Kind: "the id of a network interface in EC2", Hints: []string{"eni-"}, Re: rule.Expression(`\beni-([0-9a-f]{17}|[0-9a-f]{8})\b`), sample: rule.Expression(`eni-1234567890abcdef0`), digit: true},
	{Kind: "an EC2 instance's UUID", Hints: []string{"ec2"}, Re: rule.Expression(`(?i)\bec2[0-9a-f]{5}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)},
	{Kind: "an EC2 instance's host name", Hints: []string{"ip-"}, Re: rule.Expression(`\bip-\d{1,3}-\d{1,3}-\d{1,3}-\d{1,3}\b`)},
	{Kind: "a network interface's address", Hints: []string{"mac", "addr"}, in: networkFiles,
		Re: rule.Expression(`(?i)\b(mac-?addr(?:ess)?|hwaddr|lladdr|cloned-mac-address|address\})\s*[:=]+\s*["']?([0-9a-f]{2}:){5}[0-9a-f]{2}`)},
	{Kind: "an AWS account's id", Hints: []string{"account"}, in: ofOneAccount,
		Re: rule.Expression(`(?i)\baccount[_-]?(?:id)?["']?\s*[:=]\s*["']?(\d{12})\b`), sample: rule.Expression(`123456789012|0{12}|1{12}`)},
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
	return rule.Expression(`(?i)\b` + strings.Join([]string{plain[:8], plain[8:12], plain[12:16], plain[16:20], plain[20:]}, "-?") + `\b`)
}
