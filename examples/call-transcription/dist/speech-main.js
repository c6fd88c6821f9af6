// The substitute for the speech service, as a separate process: `PORT=8400 node dist/speech-main.js`.
import { speechService } from "./speech-service.js";
speechService(Number(process.env["PORT"] ?? 8400));
