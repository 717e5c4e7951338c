-- A store as commit 601fb4e left it: every table of the builtin plugins, with a row in each.
BEGIN TRANSACTION;
CREATE TABLE alembic_version_audit (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_audit_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version_audit" VALUES('audit_0002');
CREATE TABLE alembic_version_awareness (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_awareness_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version_awareness" VALUES('awareness_0001');
CREATE TABLE alembic_version_channels (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_channels_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version_channels" VALUES('channels_0001');
CREATE TABLE alembic_version_discovery (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_discovery_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version_discovery" VALUES('discovery_0002');
CREATE TABLE alembic_version_inventory (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_inventory_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version_inventory" VALUES('inventory_0001');
CREATE TABLE alembic_version_memory (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_memory_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version_memory" VALUES('memory_0003');
CREATE TABLE alembic_version_metering (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_metering_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version_metering" VALUES('metering_0002');
CREATE TABLE alembic_version_planning (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_planning_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version_planning" VALUES('planning_0001');
CREATE TABLE alembic_version_policy (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_policy_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version_policy" VALUES('policy_0001');
CREATE TABLE alembic_version_schedules (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_schedules_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version_schedules" VALUES('schedules_0001');
CREATE TABLE alembic_version_storage (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_storage_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version_storage" VALUES('storage_0004');
CREATE TABLE alembic_version_wasm (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_wasm_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version_wasm" VALUES('wasm_0001');
CREATE TABLE audit_entry (
	chain TEXT NOT NULL, 
	seq BIGINT NOT NULL, 
	at TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	turn TEXT NOT NULL, 
	session TEXT NOT NULL, 
	call TEXT NOT NULL, 
	tool TEXT NOT NULL, 
	category TEXT NOT NULL, 
	outcome TEXT NOT NULL, 
	data TEXT NOT NULL, previous TEXT DEFAULT '' NOT NULL, "key" TEXT DEFAULT '' NOT NULL, seal TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (chain, seq)
);
INSERT INTO "audit_entry" VALUES('chain',1,'2026-01-01T00:00:00.000000+00:00','kind','turn','main:cli:local:me','call','tool','category','outcome','data','previous','key','seal');
CREATE TABLE awareness_pin (
	id TEXT NOT NULL, 
	approved TEXT NOT NULL, 
	seen TEXT NOT NULL, 
	source TEXT NOT NULL, 
	changed TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "awareness_pin" VALUES('id','approved','seen','source','changed');
CREATE TABLE channels_cursor (
	channel TEXT NOT NULL, 
	cursor TEXT NOT NULL, 
	PRIMARY KEY (channel)
);
INSERT INTO "channels_cursor" VALUES('channel','cursor');
CREATE TABLE channels_delivery (
	id TEXT NOT NULL, 
	position BIGINT NOT NULL, 
	batch TEXT NOT NULL, 
	channel TEXT NOT NULL, 
	account TEXT NOT NULL, 
	peer TEXT NOT NULL, 
	body TEXT NOT NULL, 
	state TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	attempts INTEGER NOT NULL, 
	due BIGINT NOT NULL, 
	expires BIGINT NOT NULL, 
	error TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "channels_delivery" VALUES('id',1,'batch','channel','account','peer','body','state','owner',1,1,1,'error');
CREATE TABLE channels_event (
	channel TEXT NOT NULL, 
	id TEXT NOT NULL, 
	position BIGINT NOT NULL, 
	state TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	message TEXT NOT NULL, 
	answer TEXT NOT NULL, 
	PRIMARY KEY (channel, id)
);
INSERT INTO "channels_event" VALUES('channel','id',1,'done','owner','','answer');
CREATE TABLE channels_lease (
	name TEXT NOT NULL, 
	holder TEXT NOT NULL, 
	until BIGINT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "channels_lease" VALUES('name','holder',1);
CREATE TABLE channels_turn (
	turn TEXT NOT NULL, 
	channel TEXT NOT NULL, 
	event TEXT NOT NULL, 
	session TEXT NOT NULL, 
	live TEXT NOT NULL, 
	PRIMARY KEY (turn)
);
INSERT INTO "channels_turn" VALUES('turn','channel','event','main:cli:local:me','live');
CREATE TABLE discovery_cursor (
	name TEXT NOT NULL, 
	cursor TEXT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "discovery_cursor" VALUES('name','cursor');
CREATE TABLE discovery_example (
	id TEXT NOT NULL, 
	scope TEXT NOT NULL, 
	capability TEXT NOT NULL, 
	text TEXT NOT NULL, 
	folded TEXT NOT NULL, 
	count BIGINT NOT NULL, 
	learned BIGINT NOT NULL, 
	used BIGINT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "discovery_example" VALUES('id','tool','capability','text','folded',1,1,1);
CREATE TABLE inventory_capability (
	id TEXT NOT NULL, 
	source TEXT NOT NULL, 
	data TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "inventory_capability" VALUES('id','source','{}');
CREATE TABLE inventory_skill (
	id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	agent TEXT, 
	runtime TEXT NOT NULL, 
	description TEXT NOT NULL, 
	content TEXT NOT NULL, 
	changed TEXT NOT NULL, 
	changed_by TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "inventory_skill" VALUES('id','name','agent','runtime','description','content','changed','changed_by');
CREATE TABLE inventory_source (
	source TEXT NOT NULL, 
	synced TEXT NOT NULL, 
	PRIMARY KEY (source)
);
INSERT INTO "inventory_source" VALUES('source','synced');
CREATE TABLE inventory_toggle (
	id TEXT NOT NULL, 
	disabled BOOLEAN NOT NULL, 
	changed TEXT NOT NULL, 
	changed_by TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "inventory_toggle" VALUES('id',1,'changed','changed_by');
CREATE TABLE memory_cursor (
	name TEXT NOT NULL, 
	cursor TEXT NOT NULL, 
	version BIGINT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "memory_cursor" VALUES('name','cursor',1);
CREATE TABLE memory_fact (
	number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	id TEXT NOT NULL, 
	scope TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	subject TEXT NOT NULL, 
	subject_name TEXT NOT NULL, 
	relation TEXT NOT NULL, 
	object TEXT NOT NULL, 
	value TEXT NOT NULL, 
	text TEXT NOT NULL, 
	folded TEXT NOT NULL, 
	confidence FLOAT NOT NULL, 
	speaker TEXT NOT NULL, 
	provenance TEXT NOT NULL, 
	taint TEXT NOT NULL, 
	session TEXT NOT NULL, 
	turn TEXT NOT NULL, 
	valid_from TEXT, 
	valid_to TEXT, 
	learned TEXT NOT NULL, 
	superseded TEXT, 
	ending TEXT, 
	ended_by TEXT, 
	ended_turn TEXT, 
	ended_session TEXT
);
INSERT INTO "memory_fact" VALUES(1,'id','tool','kind','subject','subject_name','relation','object','value','text','folded',0.5,'speaker','provenance','[]','main:cli:local:me','turn','valid_from','valid_to','learned','superseded','ending','ended_by','ended_turn','ended_session');
CREATE TABLE memory_fact_source (
	fact INTEGER NOT NULL, 
	said TEXT NOT NULL, 
	scope TEXT NOT NULL, 
	session TEXT NOT NULL, 
	turn TEXT NOT NULL, 
	at TEXT NOT NULL, 
	speaker TEXT NOT NULL, 
	provenance TEXT NOT NULL, 
	taint TEXT NOT NULL, 
	confidence FLOAT NOT NULL, 
	PRIMARY KEY (fact, said)
);
INSERT INTO "memory_fact_source" VALUES(1,'said','tool','main:cli:local:me','turn','2026-01-01T00:00:00.000000+00:00','speaker','provenance','[]',0.5);
CREATE TABLE memory_fact_word (
	scope TEXT NOT NULL, 
	word TEXT NOT NULL, 
	fact INTEGER NOT NULL, 
	PRIMARY KEY (scope, word, fact)
)
 WITHOUT ROWID

;
INSERT INTO "memory_fact_word" VALUES('tool','word',1);
CREATE TABLE memory_scope (
	scope TEXT NOT NULL, 
	version BIGINT NOT NULL, 
	removed BIGINT NOT NULL, 
	next BIGINT NOT NULL, 
	PRIMARY KEY (scope)
);
INSERT INTO "memory_scope" VALUES('tool',1,1,1);
CREATE TABLE memory_turn (
	scope TEXT NOT NULL, 
	place BIGINT NOT NULL, 
	stamp BIGINT NOT NULL, 
	message TEXT NOT NULL, 
	part INTEGER NOT NULL, 
	session TEXT NOT NULL, 
	turn TEXT NOT NULL, 
	at BIGINT NOT NULL, 
	speaker TEXT NOT NULL, 
	text TEXT NOT NULL, 
	taint TEXT NOT NULL, 
	provenance TEXT NOT NULL, 
	terms BLOB NOT NULL, 
	signs INTEGER NOT NULL, 
	fingerprint TEXT NOT NULL, 
	vector BLOB, 
	PRIMARY KEY (scope, place)
);
INSERT INTO "memory_turn" VALUES('tool',1,1,'message',1,'main:cli:local:me','turn',1,'speaker','text','[]','provenance',X'01000000',1,'fingerprint',X'01000000');
CREATE TABLE metering_call (
	id TEXT NOT NULL, 
	writer TEXT NOT NULL, 
	seq BIGINT NOT NULL, 
	at TEXT NOT NULL, 
	day TEXT NOT NULL, 
	turn TEXT NOT NULL, 
	session TEXT NOT NULL, 
	agent TEXT NOT NULL, 
	channel TEXT NOT NULL, 
	account TEXT NOT NULL, 
	principal TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	cause TEXT NOT NULL, 
	plugin TEXT NOT NULL, 
	tool TEXT NOT NULL, 
	provider TEXT NOT NULL, 
	model TEXT NOT NULL, 
	attempt INTEGER NOT NULL, 
	iteration INTEGER NOT NULL, 
	status TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	sent BOOLEAN NOT NULL, 
	reported BOOLEAN NOT NULL, 
	input_tokens BIGINT NOT NULL, 
	cache_read_tokens BIGINT NOT NULL, 
	cache_write_tokens BIGINT NOT NULL, 
	cache_write_hour_tokens BIGINT NOT NULL, 
	audio_input_tokens BIGINT NOT NULL, 
	image_input_tokens BIGINT NOT NULL, 
	output_tokens BIGINT NOT NULL, 
	reasoning_tokens BIGINT NOT NULL, 
	audio_output_tokens BIGINT NOT NULL, 
	image_output_tokens BIGINT NOT NULL, 
	cost BIGINT, 
	saved BIGINT NOT NULL, 
	price TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "metering_call" VALUES('id','writer',1,'2026-01-01T00:00:00.000000+00:00','day','turn','main:cli:local:me','agent','channel','account','principal','key','cause','plugin','tool','provider','model',1,1,'status','kind',1,1,1,1,1,1,1,1,1,1,1,1,1,1,'price');
CREATE TABLE metering_day (
	id TEXT NOT NULL, 
	day TEXT NOT NULL, 
	agent TEXT NOT NULL, 
	channel TEXT NOT NULL, 
	account TEXT NOT NULL, 
	principal TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	cause TEXT NOT NULL, 
	plugin TEXT NOT NULL, 
	tool TEXT NOT NULL, 
	provider TEXT NOT NULL, 
	model TEXT NOT NULL, 
	input_tokens BIGINT NOT NULL, 
	cache_read_tokens BIGINT NOT NULL, 
	cache_write_tokens BIGINT NOT NULL, 
	cache_write_hour_tokens BIGINT NOT NULL, 
	audio_input_tokens BIGINT NOT NULL, 
	image_input_tokens BIGINT NOT NULL, 
	output_tokens BIGINT NOT NULL, 
	reasoning_tokens BIGINT NOT NULL, 
	audio_output_tokens BIGINT NOT NULL, 
	image_output_tokens BIGINT NOT NULL, 
	calls BIGINT NOT NULL, 
	refused BIGINT NOT NULL, 
	failed BIGINT NOT NULL, 
	estimated BIGINT NOT NULL, 
	unpriced BIGINT NOT NULL, 
	cost_dollars BIGINT NOT NULL, 
	cost_rest BIGINT NOT NULL, 
	saved_dollars BIGINT NOT NULL, 
	saved_rest BIGINT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "metering_day" VALUES('id','day','agent','channel','account','principal','key','cause','plugin','tool','provider','model',1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1);
CREATE TABLE metering_gateway (
	gateway TEXT NOT NULL, 
	beat BIGINT NOT NULL, 
	PRIMARY KEY (gateway)
);
INSERT INTO "metering_gateway" VALUES('gateway',1);
CREATE TABLE metering_lease (
	gateway TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	amount BIGINT NOT NULL, 
	answered BIGINT NOT NULL, 
	PRIMARY KEY (gateway, "key")
);
INSERT INTO "metering_lease" VALUES('gateway','key',1,1);
CREATE TABLE metering_mark (
	writer TEXT NOT NULL, 
	seq BIGINT NOT NULL, 
	PRIMARY KEY (writer)
);
INSERT INTO "metering_mark" VALUES('writer',1);
CREATE TABLE metering_session_day (
	id TEXT NOT NULL, 
	day TEXT NOT NULL, 
	session TEXT NOT NULL, 
	agent TEXT NOT NULL, 
	channel TEXT NOT NULL, 
	account TEXT NOT NULL, 
	principal TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	cause TEXT NOT NULL, 
	plugin TEXT NOT NULL, 
	tool TEXT NOT NULL, 
	provider TEXT NOT NULL, 
	model TEXT NOT NULL, 
	input_tokens BIGINT NOT NULL, 
	cache_read_tokens BIGINT NOT NULL, 
	cache_write_tokens BIGINT NOT NULL, 
	cache_write_hour_tokens BIGINT NOT NULL, 
	audio_input_tokens BIGINT NOT NULL, 
	image_input_tokens BIGINT NOT NULL, 
	output_tokens BIGINT NOT NULL, 
	reasoning_tokens BIGINT NOT NULL, 
	audio_output_tokens BIGINT NOT NULL, 
	image_output_tokens BIGINT NOT NULL, 
	calls BIGINT NOT NULL, 
	refused BIGINT NOT NULL, 
	failed BIGINT NOT NULL, 
	estimated BIGINT NOT NULL, 
	unpriced BIGINT NOT NULL, 
	cost_dollars BIGINT NOT NULL, 
	cost_rest BIGINT NOT NULL, 
	saved_dollars BIGINT NOT NULL, 
	saved_rest BIGINT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "metering_session_day" VALUES('id','day','main:cli:local:me','agent','channel','account','principal','key','cause','plugin','tool','provider','model',1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1);
CREATE TABLE metering_window (
	"key" TEXT NOT NULL, 
	lasting BOOLEAN NOT NULL, 
	settled BIGINT NOT NULL, 
	leased BIGINT NOT NULL, 
	lost BIGINT NOT NULL, 
	asked BIGINT NOT NULL, 
	touched BIGINT NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "metering_window" VALUES('key',1,1,1,1,1,1);
CREATE TABLE planning_outcome (
	scope TEXT NOT NULL, 
	turn TEXT NOT NULL, 
	at BIGINT NOT NULL, 
	status TEXT NOT NULL, 
	score FLOAT NOT NULL, 
	steers BOOLEAN NOT NULL, 
	PRIMARY KEY (scope, turn)
);
INSERT INTO "planning_outcome" VALUES('tool','turn',1,'status',0.5,1);
CREATE TABLE policy_grant (
	id TEXT NOT NULL, 
	scope TEXT NOT NULL, 
	tool TEXT NOT NULL, 
	plugin TEXT NOT NULL, 
	tool_digest TEXT NOT NULL, 
	arguments TEXT NOT NULL, 
	shown TEXT NOT NULL, 
	agent TEXT NOT NULL, 
	session TEXT NOT NULL, 
	provenance TEXT NOT NULL, 
	tainted BOOLEAN NOT NULL, 
	policy TEXT NOT NULL, 
	allowed_by TEXT NOT NULL, 
	allowed_at TEXT NOT NULL, 
	expires TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "policy_grant" VALUES('id','tool','tool','plugin','tool_digest','arguments','shown','agent','main:cli:local:me','provenance',1,'policy','allowed_by','allowed_at','expires');
CREATE TABLE policy_tool_pin (
	tool TEXT NOT NULL, 
	accepted TEXT NOT NULL, 
	seen TEXT NOT NULL, 
	identity TEXT NOT NULL, 
	accepted_by TEXT NOT NULL, 
	changed TEXT NOT NULL, 
	PRIMARY KEY (tool)
);
INSERT INTO "policy_tool_pin" VALUES('tool','accepted','seen','identity','accepted_by','changed');
CREATE TABLE schedules_run (
	schedule TEXT NOT NULL, 
	planned TEXT NOT NULL, 
	first TEXT NOT NULL, 
	count INTEGER NOT NULL, 
	more BOOLEAN NOT NULL, 
	state TEXT NOT NULL, 
	"by" TEXT NOT NULL, 
	attempt INTEGER NOT NULL, 
	gateway TEXT NOT NULL, 
	until DATETIME, 
	started TEXT NOT NULL, 
	ended TEXT NOT NULL, 
	turn TEXT NOT NULL, 
	session TEXT NOT NULL, 
	note TEXT NOT NULL, 
	PRIMARY KEY (schedule, planned)
);
INSERT INTO "schedules_run" VALUES('schedule','planned','first',1,1,'state','by',1,'gateway','2026-01-01 00:00:00.000000','started','ended','turn','main:cli:local:me','note');
CREATE TABLE schedules_schedule (
	name TEXT NOT NULL, 
	"plan" TEXT NOT NULL, 
	cursor TEXT NOT NULL, 
	missed BIGINT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "schedules_schedule" VALUES('name','plan','cursor',1);
CREATE TABLE storage_askers (
	owner TEXT NOT NULL, 
	until DATETIME NOT NULL, 
	PRIMARY KEY (owner)
);
INSERT INTO "storage_askers" VALUES('owner','2026-01-01 00:00:00.000000');
CREATE TABLE storage_messages (
	session TEXT NOT NULL, 
	turn_number INTEGER NOT NULL, 
	seq INTEGER NOT NULL, 
	turn TEXT NOT NULL, 
	role TEXT NOT NULL, 
	taint TEXT NOT NULL, 
	body TEXT NOT NULL, 
	created DATETIME NOT NULL, position BIGINT DEFAULT '0' NOT NULL, 
	PRIMARY KEY (session, turn_number, seq)
);
INSERT INTO "storage_messages" VALUES('main:cli:local:me',1,0,'turn','user','[]','{"role": "user", "parts": [{"type": "text", "text": "hello"}], "taint": [], "provenance": "internal_system", "id": "msg_831f11a2283c69ecbff617e7a9ed3451", "turn": "turn", "created": "2026-01-01T00:00:00+00:00"}','2026-01-01 00:00:00.000000',1);
CREATE TABLE storage_positions (
	name TEXT NOT NULL, 
	last BIGINT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "storage_positions" VALUES('messages',0);
CREATE TABLE storage_questions (
	id TEXT NOT NULL, 
	state TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	subject TEXT NOT NULL, 
	body TEXT NOT NULL, 
	asked DATETIME NOT NULL, 
	answer TEXT NOT NULL, 
	answered_by TEXT NOT NULL, 
	why TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "storage_questions" VALUES('id','state','owner','subject','body','2026-01-01 00:00:00.000000','answer','answered_by','why');
CREATE TABLE storage_scripts (
	plugin TEXT NOT NULL, 
	digest TEXT NOT NULL, 
	version TEXT NOT NULL, 
	PRIMARY KEY (plugin)
);
INSERT INTO "storage_scripts" VALUES('storage','fcca9451650f4192b1d48273b126d5921fac51c4f87597e304d72a1b606003cd','storage_0004');
INSERT INTO "storage_scripts" VALUES('audit','a1158343e292c9cac052f9b82af8d591ebf5685ddbcdb64c11919efd9bc4c6ce','audit_0002');
INSERT INTO "storage_scripts" VALUES('awareness','257e1f1b1885044defffa05ec3541b592050067d7f62b6fd1b2752b6500b28d2','awareness_0001');
INSERT INTO "storage_scripts" VALUES('channels','cad355bd25d5396d6077cd223510fce6aead552af206669d71c779f2a62e646f','channels_0001');
INSERT INTO "storage_scripts" VALUES('discovery','1f37b1ae4de68ddaa6c1713ed5d9b4b48393b046bfd5772a88ba82be4cdcc3fb','discovery_0002');
INSERT INTO "storage_scripts" VALUES('inventory','bdb7fded29b183f859c747106d13abeb295e378cd63319888b31fac5009770de','inventory_0001');
INSERT INTO "storage_scripts" VALUES('memory','c9e9d1998ed8f64787a85a0b046aa8de83d509d947cdd7f2ba05c7b9693bf1bc','memory_0003');
INSERT INTO "storage_scripts" VALUES('metering','d66554e4e0f316c2018199bac3e52b68841e42b2974b0401155a6fe2b46e5f2a','metering_0002');
INSERT INTO "storage_scripts" VALUES('planning','216d5ebf34c2bc5de511b0569bcfdc98fd11f86f871aab920c01ebc1b5e8b7af','planning_0001');
INSERT INTO "storage_scripts" VALUES('policy','882262a34baaf75e20059185ea9c29e1e1d2fa6fdc8605f6cadf5294e627d417','policy_0001');
INSERT INTO "storage_scripts" VALUES('schedules','1e4d40a8f1114013154e245457a58df965327463af03b161bc469480895253ac','schedules_0001');
INSERT INTO "storage_scripts" VALUES('wasm','1cb7c6cb5c480be65ddd9ea2269c3275730dc9571c6e74e27439ed5ffc909f6d','wasm_0001');
CREATE TABLE storage_sessions (
	session TEXT NOT NULL, 
	fence BIGINT NOT NULL, 
	messages INTEGER NOT NULL, 
	turns INTEGER NOT NULL, 
	last_turn TEXT NOT NULL, 
	updated DATETIME NOT NULL, taint TEXT DEFAULT '[]' NOT NULL, forgotten INTEGER DEFAULT '0' NOT NULL, 
	PRIMARY KEY (session)
);
INSERT INTO "storage_sessions" VALUES('main:cli:local:me',1,1,1,'last_turn','2026-01-01 00:00:00.000000','[]',1);
CREATE TABLE storage_switches (
	name TEXT NOT NULL, 
	value TEXT NOT NULL, 
	version BIGINT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "storage_switches" VALUES('name','value',1);
CREATE TABLE wasm_namespace (
	plugin TEXT NOT NULL, 
	namespace TEXT NOT NULL, 
	bytes BIGINT NOT NULL, 
	PRIMARY KEY (plugin, namespace)
);
INSERT INTO "wasm_namespace" VALUES('plugin','namespace',1);
CREATE TABLE wasm_value (
	plugin TEXT NOT NULL, 
	namespace TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	value TEXT NOT NULL, 
	taint TEXT NOT NULL, 
	bytes BIGINT NOT NULL, 
	PRIMARY KEY (plugin, namespace, owner, "key")
);
INSERT INTO "wasm_value" VALUES('plugin','namespace','owner','key','value','[]',1);
CREATE INDEX storage_sessions_by_updated ON storage_sessions (updated);
CREATE UNIQUE INDEX storage_messages_by_position ON storage_messages (position);
CREATE INDEX storage_questions_by_state ON storage_questions (state, asked);
CREATE INDEX audit_entry_by_time ON audit_entry (at, chain, seq);
CREATE INDEX audit_entry_by_turn ON audit_entry (turn);
CREATE INDEX audit_entry_by_session ON audit_entry (session, at);
CREATE INDEX channels_event_by_state ON channels_event (state, channel, position);
CREATE INDEX channels_event_by_position ON channels_event (channel, position);
CREATE INDEX channels_turn_by_event ON channels_turn (channel, event);
CREATE INDEX channels_delivery_by_peer ON channels_delivery (channel, state, account, peer, position);
CREATE INDEX discovery_example_by_capability ON discovery_example (scope, capability, used);
CREATE INDEX discovery_example_by_scope ON discovery_example (scope, used);
CREATE INDEX discovery_example_by_use ON discovery_example (used);
CREATE INDEX ix_inventory_capability_source ON inventory_capability (source);
CREATE UNIQUE INDEX memory_turn_by_message ON memory_turn (scope, message, part);
CREATE INDEX memory_turn_by_stamp ON memory_turn (scope, stamp);
CREATE INDEX memory_turn_by_turn ON memory_turn (turn);
CREATE INDEX memory_turn_by_session ON memory_turn (session);
CREATE INDEX memory_turn_by_fingerprint ON memory_turn (fingerprint, at);
CREATE UNIQUE INDEX memory_fact_by_id ON memory_fact (scope, id);
CREATE INDEX memory_fact_by_subject ON memory_fact (scope, subject, relation, number);
CREATE INDEX memory_fact_by_latest ON memory_fact (scope, subject, number);
CREATE INDEX memory_fact_by_object ON memory_fact (scope, object, number);
CREATE INDEX memory_fact_by_ending ON memory_fact (scope, ended_by);
CREATE INDEX memory_fact_by_ending_turn ON memory_fact (scope, ended_turn);
CREATE INDEX memory_fact_by_ending_session ON memory_fact (scope, ended_session);
CREATE INDEX memory_fact_by_session ON memory_fact (scope, session, number);
CREATE INDEX memory_fact_source_by_message ON memory_fact_source (scope, said);
CREATE INDEX memory_fact_source_by_turn ON memory_fact_source (scope, turn);
CREATE INDEX memory_fact_source_by_session ON memory_fact_source (scope, session);
CREATE INDEX memory_fact_word_by_fact ON memory_fact_word (fact);
CREATE UNIQUE INDEX metering_call_by_place ON metering_call (writer, seq);
CREATE INDEX metering_call_by_session ON metering_call (session, at);
CREATE INDEX metering_day_by_day ON metering_day (day);
CREATE INDEX metering_session_day_by_day ON metering_session_day (day);
CREATE INDEX metering_session_day_by_session ON metering_session_day (session, day);
CREATE INDEX metering_window_by_touched ON metering_window (touched);
CREATE INDEX metering_lease_by_key ON metering_lease ("key");
CREATE INDEX planning_outcome_by_time ON planning_outcome (scope, at, turn);
CREATE INDEX policy_grant_by_session ON policy_grant (session, tool);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('memory_fact',1);
COMMIT;
