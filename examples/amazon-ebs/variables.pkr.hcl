variable "kubernetes_versions" {
  description = "The kubelet's versions: an image of every distribution and processor is made with each."
  type        = list(string)
  default     = ["1.34.4"]

  validation {
    condition     = length(var.kubernetes_versions) > 0 && alltrue([for v in var.kubernetes_versions : can(regex("^1\\.[0-9]+\\.[0-9]+$", v))])
    error_message = "Must be versions in full and without \"v\", such as [\"1.34.4\", \"1.33.8\"]."
  }
  validation {
    condition     = length(distinct([for v in var.kubernetes_versions : regex_replace(v, "\\.[0-9]+$", "")])) == length(var.kubernetes_versions)
    error_message = "Must have one version of each minor: two would be published under one name."
  }
}

variable "distros" {
  description = "The distributions by the name that their images get. In \"name\", {processor} is how the publisher writes it."
  type = map(object({
    owner        = string # the account whose images are taken: anybody may publish under any name
    name         = string
    processors   = map(string) # in EC2's words, x86_64 and arm64
    root_device  = string      # what `aws ec2 describe-images` shows as RootDeviceName
    ssh_username = string
  }))
  default = {
    # Amazon; `aws ssm get-parameters-by-path --path /aws/service/ami-amazon-linux-latest` lists the newest.
    al2023 = {
      owner        = "137112412989"
      name         = "al2023-ami-minimal-2023.*-kernel-6.12-{processor}"
      processors   = { x86_64 = "x86_64", arm64 = "arm64" }
      root_device  = "/dev/xvda"
      ssh_username = "ec2-user"
    }
    # There are no images by the Arch Linux project itself, and none for arm64;
    # these are what its wiki points to. Look at owner and device before you rely on them:
    # https://wiki.archlinux.org/title/Arch_Linux_AMIs_for_Amazon_Web_Services
    arch = {
      owner        = "647457786197"
      name         = "arch-linux-std-hvm-*.x86_64-ebs"
      processors   = { x86_64 = "x86_64" }
      root_device  = "/dev/xvda"
      ssh_username = "arch"
    }
    # The Debian cloud team: https://wiki.debian.org/Cloud/AmazonEC2Image
    debian12 = {
      owner        = "136693071363"
      name         = "debian-12-{processor}-*"
      processors   = { x86_64 = "amd64", arm64 = "arm64" }
      root_device  = "/dev/xvda"
      ssh_username = "admin"
    }
    debian13 = {
      owner        = "136693071363"
      name         = "debian-13-{processor}-*"
      processors   = { x86_64 = "amd64", arm64 = "arm64" }
      root_device  = "/dev/xvda"
      ssh_username = "admin"
    }
    # Canonical; in AWS China its account is 837727238323.
    # https://documentation.ubuntu.com/aws/aws-how-to/instances/find-ubuntu-images/
    ubuntu2204 = {
      owner        = "099720109477"
      name         = "ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-{processor}-server-*"
      processors   = { x86_64 = "amd64", arm64 = "arm64" }
      root_device  = "/dev/sda1"
      ssh_username = "ubuntu"
    }
    ubuntu2404 = {
      owner        = "099720109477"
      name         = "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-{processor}-server-*"
      processors   = { x86_64 = "amd64", arm64 = "arm64" }
      root_device  = "/dev/sda1"
      ssh_username = "ubuntu"
    }
  }

  validation {
    condition     = alltrue([for name, d in var.distros : can(regex("^[a-z0-9]+$", name))])
    error_message = "Must have names of small letters and digits, such as \"debian13\"."
  }
  validation {
    condition     = alltrue([for d in values(var.distros) : can(regex("^[0-9]{12}$", d.owner))])
    error_message = "Must have accounts of 12 digits as owners; words such as \"amazon\" stand for many."
  }
  validation {
    condition     = alltrue([for d in values(var.distros) : length(d.processors) > 0 && alltrue([for p in keys(d.processors) : contains(["x86_64", "arm64"], p)])])
    error_message = "Must have the processors x86_64, arm64 or both."
  }
  validation {
    condition     = alltrue([for d in values(var.distros) : can(regex("^/dev/[a-z0-9]+$", d.root_device))])
    error_message = "Must have devices as root_device, such as \"/dev/xvda\"."
  }
}

variable "region" {
  description = "The region to build in, and that the images are for."
  type        = string
  default     = "us-east-1"

  validation {
    condition     = can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]+$", var.region))
    error_message = "Must be a region's code, such as \"eu-central-1\"."
  }
}

variable "copies" {
  description = "The regions that images are copied to, each with the KMS key of the copy: an ID, an ARN or an alias. Either all have a key or none; empty keys mean the region's default for EBS."
  type        = map(string)
  default     = {}

  validation {
    condition     = alltrue([for r in keys(var.copies) : can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]+$", r))])
    error_message = "Must be keys by regions' codes, such as { \"eu-north-1\" = \"alias/images\" }."
  }
  validation {
    condition     = contains([0, length(var.copies)], length(compact(values(var.copies))))
    error_message = "Must have a key for every region or for none."
  }
}

variable "name" {
  description = "What the images' names begin with; distribution, processor, Kubernetes version and time follow."
  type        = string
  default     = "eksnode"

  validation {
    condition     = can(regex("^[A-Za-z0-9._-]{1,64}$", var.name))
    error_message = "Must be 1 to 64 letters, digits, \".\", \"_\" and \"-\"."
  }
}

variable "instance_types" {
  description = "The instances to build on, by processor."
  type        = map(string)
  default     = { x86_64 = "m6i.large", arm64 = "m7g.large" }

  validation {
    condition     = alltrue([for p in ["x86_64", "arm64"] : can(regex("^[a-z][a-z0-9-]*\\.[a-z0-9-]+$", var.instance_types[p]))])
    error_message = "Must be an instance type for each of x86_64 and arm64, such as \"m6i.large\"."
  }
}

variable "subnet_id" {
  description = "The subnet to build in; empty means the default VPC's."
  type        = string
  default     = ""

  validation {
    condition     = can(regex("^(|subnet-[0-9a-f]{8,17})$", var.subnet_id))
    error_message = "Must be empty or a subnet's ID, such as \"subnet-0123456789abcdef0\"."
  }
}

variable "instance_profile" {
  description = "The instance profile of the build's instances. Empty, as a build needs none, but for ssh_interface = \"session_manager\"."
  type        = string
  default     = ""

  validation {
    condition     = can(regex("^[A-Za-z0-9+=,.@_-]{0,128}$", var.instance_profile))
    error_message = "Must be empty or an instance profile's name, not its ARN."
  }
}

variable "ssh_interface" {
  description = "Where Packer reaches the instances: \"public_ip\", \"private_ip\" or \"session_manager\"; empty means the public address where there is one."
  type        = string
  default     = ""

  validation {
    condition     = contains(["", "public_ip", "private_ip", "session_manager"], var.ssh_interface)
    error_message = "Must be empty, \"public_ip\", \"private_ip\" or \"session_manager\"."
  }
}

variable "ssh_source_cidrs" {
  description = "From where the instances accept SSH while they are built: your own address is best."
  type        = list(string)
  default     = ["0.0.0.0/0"]

  validation {
    condition     = length(var.ssh_source_cidrs) > 0
    error_message = "Must name at least one range, such as \"192.0.2.7/32\"."
  }
}

variable "volume_size" {
  description = "The root volume's size in GiB; nodes may have a larger one, not a smaller one."
  type        = number
  default     = 8

  validation {
    condition     = var.volume_size >= 4 && var.volume_size <= 16384 && floor(var.volume_size) == var.volume_size
    error_message = "Must be a whole number from 4 to 16384."
  }
}

variable "kms_key_id" {
  description = "The KMS key of the root volume, and so of the images: an ID, an ARN or an alias with \"alias/\" before it; empty means the region's default for EBS. Images that other accounts shall use need a key of your own."
  type        = string
  default     = ""

  validation {
    condition     = can(regex("^(|alias/.+|arn:[a-z-]+:kms:.+|[0-9a-f-]{36}|mrk-[0-9a-f]{32})$", var.kms_key_id))
    error_message = "Must be empty, a key's ID or ARN, or an alias, such as \"alias/images\"."
  }
}

variable "deprecate_after_days" {
  description = "After how many days EC2 calls the images deprecated: they go on working, and are no longer listed for others."
  type        = number
  default     = 180

  validation {
    condition     = var.deprecate_after_days >= 1 && var.deprecate_after_days <= 3650 && floor(var.deprecate_after_days) == var.deprecate_after_days
    error_message = "Must be a whole number of days from 1 to 3650."
  }
}

variable "publish_under" {
  description = "Where in SSM the images' IDs are put: \"/eksnode\" means parameters such as /eksnode/debian13/1.34/arm64. Empty publishes nothing."
  type        = string
  default     = ""

  validation {
    condition     = can(regex("^(|(/[A-Za-z0-9_.-]+)+)$", var.publish_under))
    error_message = "Must be empty or a path such as \"/eksnode\", without \"/\" at the end."
  }
}

variable "tags" {
  description = "Tags for the images and their snapshots, and for everything that exists while they are built."
  type        = map(string)
  default     = {}
}

variable "versions" {
  description = "Versions of single assets, where another than the usual one is wanted, by Kubernetes version."
  type        = map(map(string))
  default     = {}
}

variable "checksums" {
  description = "The SHA-256 that single assets must have, by Kubernetes version and processor: { \"1.34.4/x86_64\" = { kubelet = \"…\" } }."
  type        = map(map(string))
  default     = {}
}

variable "source_url" {
  description = "A mirror of the upstream sites; empty means the sites themselves."
  type        = string
  default     = ""
}

variable "reports" {
  description = "The folder for the reports."
  type        = string
  default     = "reports"
}
